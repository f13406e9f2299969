"""Which keys reach a query: windows of every kind counted, and the true set told."""

import pytest
import torch

from headwise.check import Tokens, Vectors, receptive_field
from headwise.core import HeadwiseError


def averages(visible):
    """Each output is the mean of the inputs seen, ``visible(i - j)``."""

    def f(x):
        places = torch.arange(x.shape[1])
        weights = visible(places[:, None] - places).to(x)
        return weights / weights.sum(-1, keepdim=True).clamp(min=1) @ x

    return f


WINDOWS = {
    "causal": (lambda behind: behind >= 0, {}),
    "all": (lambda behind: behind == behind, {"causal": False}),
    "1 key": (lambda behind: behind == 0, {"window": 1}),
    "3 keys": (lambda behind: (behind >= 0) & (behind < 3), {"window": 3}),
    "2 on each side": (lambda behind: behind.abs() < 3, {"window": 3, "causal": False}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", WINDOWS)
def test_each_claim_holds_for_its_own_window_alone(name, dtype):
    for other, (_, claim) in WINDOWS.items():
        report = receptive_field(averages(WINDOWS[name][0]), Vectors(8, dtype), **claim)
        assert report.passed == (name == other), report


@pytest.mark.parametrize(
    ("visible", "claim", "words"),
    [
        (lambda behind: (behind >= 0) & (behind <= 4), {"window": 4}, "queries see 5 keys, 4 were claimed"),
        (lambda behind: behind == 0, {"window": 2}, "queries see 1 key, 2 were claimed"),
        (lambda behind: behind >= 0, {"window": 4}, "queries see all keys up to their own, 4 were claimed"),
        (
            lambda behind: behind >= -1,
            {},
            "queries see all keys up to their own and 1 after, all up to their own",
        ),
        (
            lambda behind: behind.abs() < 2,
            {"window": 2},
            "queries see 3 keys (1 before them and 1 after), 2 were",
        ),
        (
            lambda behind: (behind == 0) | (behind == 3),
            {},
            "the query at 11 sees keys 8, 11, all up to their own",
        ),
    ],
)
def test_the_true_set_is_told(visible, claim, words):
    assert receptive_field(averages(visible), Vectors(8), **claim).failing.startswith(words)


def test_the_smallest_case_is_named():
    f = averages(lambda behind: (behind >= 0) & (behind <= 40))
    report = receptive_field(f, Vectors(2), window=40)
    assert report.failing.startswith("queries see 41 keys, 40 were claimed: the output at 40 changes by")
    assert report.failing.endswith("with the input at 0, of 41")


def test_a_key_of_little_weight_is_seen():
    """Through a weight of 1e-6 nothing moves in bfloat16, but the slope is there."""
    far = averages(lambda behind: behind >= 0)
    x = receptive_field(lambda x: x + 1e-6 * far(x), Vectors(4, torch.bfloat16))
    assert x.passed, x


def test_tokens_have_no_slopes():
    table = torch.randn(30, 4)
    f = averages(lambda behind: (behind >= 0) & (behind < 3))
    assert receptive_field(lambda x: f(table[x]), Tokens(30), window=3).passed
    assert not receptive_field(lambda x: f(table[x]), Tokens(30), window=2).passed


def test_layers_widen_the_window():
    f = averages(lambda behind: (behind >= 0) & (behind < 3))
    assert receptive_field(lambda x: f(f(x)), Vectors(4), window=3, depth=2).passed
    assert not receptive_field(lambda x: f(f(x)), Vectors(4), window=3).passed


def test_a_window_of_nothing_is_refused():
    with pytest.raises(HeadwiseError, match="window must be a whole number of at least 1, got 0"):
        receptive_field(lambda x: x, Vectors(4), window=0)
