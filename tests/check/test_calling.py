"""What cannot be asked is reported in one clear line, by every property, and never as a crash."""

import pytest
import torch

from headwise.check import (
    Tokens,
    Vectors,
    batch,
    cache,
    causality,
    equivariance,
    history,
    left_padding,
    pad_content,
    receptive_field,
    right_padding,
    shift,
)

INPUTS = Vectors(4)
PROPERTIES = {
    "batch": lambda f: batch(f, INPUTS),
    "cache": lambda f: cache(f, lambda: f, INPUTS),
    "causality": lambda f: causality(f, INPUTS),
    "causality, ways": lambda f: causality({"plain": f}, INPUTS),
    "equivariance": lambda f: equivariance(f, INPUTS),
    "equivariance, blind": lambda f: equivariance(f, INPUTS, order_blind=True),
    "equivariance, knows order": lambda f: equivariance(f, INPUTS, order_blind=False),
    "history": lambda f: history(f, INPUTS),
    "left padding": lambda f: left_padding(lambda x, keep: f(x), INPUTS),
    "pad content": lambda f: pad_content(lambda x, keep: f(x), INPUTS),
    "receptive field": lambda f: receptive_field(f, INPUTS),
    "right padding": lambda f: right_padding(lambda x, keep: f(x), INPUTS),
    "shift": lambda f: shift(lambda x, positions: f(x), INPUTS),
}


def raises(x):
    raise KeyError("no such layer\nand a second line")


BAD = {
    "raises": (raises, "it raises KeyError"),
    "a tuple": (lambda x: (x, None), "it gives a tuple of 2, not a tensor"),
    "an object": (lambda x: {"logits": x}, "it gives dict, not a tensor"),
    "one output for all": (lambda x: x.mean(1), "it gives shape ["),
    "integers": (lambda x: x.argmax(-1), "it gives int64"),
    "not-a-number": (lambda x: x * torch.nan, "not finite | is not a finite number"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", PROPERTIES)
def test_what_cannot_be_asked_is_not_checked(name, kind):
    f, why = BAD[kind]
    report = PROPERTIES[name](f)
    assert report.verdict == "not checked"
    assert any(part in report.failing for part in why.split(" | ")), report
    assert "\n" not in report.failing
    assert report.cause


def test_an_error_is_told_by_its_type_and_first_line():
    assert "KeyError ('no such layer" in causality(raises, INPUTS).failing


@pytest.mark.parametrize("name", sorted(PROPERTIES.keys() - {"history", "equivariance"}))
def test_what_gives_two_answers_is_no_failure_of_another_property(name):
    report = PROPERTIES[name](lambda x: x + torch.rand_like(x))
    assert report.verdict == "not checked"
    assert "two calls with one input differ by" in report.failing


def test_what_gives_two_answers_has_a_history():
    report = history(lambda x: x + torch.rand_like(x), INPUTS)
    assert report.failing.endswith("when it is asked a second time")


@pytest.mark.parametrize("name", PROPERTIES)
def test_inputs_are_copies(name):
    """What works in place must not spoil the comparison; only history counts it."""
    report = PROPERTIES[name](lambda x: x.mul_(2))
    if name == "history":
        assert report.failing == "a call changes its own input"
    elif name == "receptive field":
        assert "queries see 1 key, all up to their own were claimed" in report.failing
    elif name == "equivariance, knows order":
        assert "does not notice" in report.failing
    else:
        assert report.passed, report


def test_no_length_is_no_crash():
    assert causality(lambda x: x, INPUTS, lengths=()).verdict == "not checked"
    assert history(lambda x: x, INPUTS, lengths=()).verdict == "not checked"


def test_a_model_that_is_too_short_is_not_checked():
    table = torch.randn(8, 4)
    report = causality(lambda x: x + table[: x.shape[1]], INPUTS)
    assert report.verdict == "not checked"
    assert "for 2 sequences of 12 float32 vectors of 4" in report.failing


def test_float32_scores_of_a_coarse_model_get_the_coarse_tolerance():
    report = causality(lambda x: torch.nn.functional.one_hot(x, 9).float(), Tokens(9, dtype=torch.bfloat16))
    assert report.tolerance == causality(lambda x: x, Vectors(4, torch.bfloat16)).tolerance
