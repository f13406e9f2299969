"""Order-blind or not, as claimed; and an encoding that does nothing."""

import pytest
import torch

from headwise.check import Tokens, Vectors, equivariance
from tests.faults.parts import Layer, attend, causal, turn, vectors


def attention(dtype, encoded=False, masked=False):
    layer = Layer(dtype)

    def f(x):
        q, k, v = layer.project(x)
        if encoded:
            q, k = turn(q, torch.arange(x.shape[1])), turn(k, torch.arange(x.shape[1]))
        return layer.merge(attend(q, k, v, causal(x.shape[1]) if masked else None))

    return f


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("encoded", [False, True])
def test_claims(encoded, masked, dtype):
    f = attention(dtype, encoded, masked)
    assert equivariance(f, vectors(dtype), order_blind=True).passed == (not encoded and not masked)
    assert equivariance(f, vectors(dtype), order_blind=False).passed == encoded  # a mask is no encoding
    found = equivariance(f, vectors(dtype))
    assert found.passed
    assert found.tried.endswith("it knows order" if encoded or masked else "it is order-blind")


def test_the_shortest_case_is_named():
    report = equivariance(lambda x: x.cumsum(1), Vectors(4), order_blind=True)
    assert report.failing.endswith("of the largest output when they come in the order 1, 0")


def test_an_encoding_without_effect_says_what_to_look_at():
    report = equivariance(lambda x: x, Vectors(4), order_blind=False)
    assert report.failing == "the last output of 12 does not notice that the inputs before it change places"
    assert "made but not used" in report.cause


def test_token_models():
    table = torch.randn(9, 4)
    assert equivariance(lambda x: table[x], Tokens(9), order_blind=True).passed
    assert equivariance(lambda x: table[x].cumsum(1), Tokens(9), order_blind=True).verdict == "fails"
