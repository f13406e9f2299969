"""Does the future leak? Causal code passes in every form, and each kind of leak is named."""

import pytest
import torch
from torch import nn

from headwise import Causal, MultiHeadAttention
from headwise.check import PropertyError, Tokens, Vectors, causality


def attend(x, hidden):
    scores = (x @ x.mT / x.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ x


def later(length, by=1):
    return torch.ones(length, length, dtype=torch.bool).triu(by)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_causal_code_passes(dtype):
    layer = MultiHeadAttention(16, heads=2, mask=Causal()).to(dtype)
    for f in (layer, lambda x: attend(x, later(x.shape[1])), lambda x: x.cumsum(1)):
        assert causality(f, Vectors(16, dtype)).passed


def test_a_mask_that_is_off_by_one_names_the_pair():
    report = causality(lambda x: attend(x, later(x.shape[1], by=2)), Vectors(8))
    assert report.verdict == "fails"
    assert "the output at 0 changes by" in report.failing
    assert report.failing.endswith("with the input at 1, of 2")
    with pytest.raises(PropertyError, match="off by one"):
        report.raise_if_failed()


def test_a_leak_that_only_long_inputs_show():
    def f(x):
        return attend(x, later(x.shape[1]) if x.shape[1] <= 12 else later(x.shape[1], by=3))

    assert causality(f, Vectors(8)).failing.endswith("of 13")


def test_a_leak_that_only_gradients_show():
    def f(x):  # the future's own size is kept, its sign is not
        later_values = x.flip(1).cumsum(1).flip(1) - x
        return x.cumsum(1) + 0 * later_values

    report = causality(f, Vectors(8))
    assert report.passed  # a gradient of exactly zero is no leak


def test_token_models():
    table = nn.Embedding(50, 8)
    assert causality(lambda x: table(x).cumsum(1), Tokens(50)).passed
    assert not causality(lambda x: table(x).flip(1).cumsum(1), Tokens(50)).passed


def test_several_ways_to_call_name_the_one_that_leaks():
    ways = {"plain": lambda x: x.cumsum(1), "weights asked": lambda x: x + x.sum(1, keepdim=True)}
    assert causality(ways, Vectors(4)).failing.startswith("weights asked: the output at 0 changes by")
    assert causality({"plain": ways["plain"], "bias given": ways["plain"]}, Vectors(4)).passed
    assert causality({}, Vectors(4)).failing == "there is no way to call it"


def test_a_leak_that_only_a_slope_shows():
    def f(x):  # what is added is 0, and its slope is not
        later_values = x.sum(1, keepdim=True)
        return x.cumsum(1) + (later_values - later_values.detach())

    report = causality(f, Vectors(4))
    assert "of the largest slope with the input at 1, of 2" in report.failing
