"""A sink of minus infinity is none; one of plus infinity takes all the weight, and its query gets zeros."""

import math

import pytest
import torch

from headwise import reference
from headwise.core import AttentionMap, Causal, attention, attention_weights
from tests.core.cases import MASKS, draw, expected, make_mask
from tests.core.paths import distance_bias
from tests.core.test_precision import DTYPES

EXACT = {"rtol": 0.0, "atol": 1e-12}
SINKS = torch.tensor([-math.inf, 0.5, math.inf, -3.0])
BIAS = distance_bias(torch.zeros(1, dtype=torch.float64), None, slice(0, 6), slice(0, 6), None)
# a kernel with its own mask, with a bias, dense blocks; scales below, above and without a power of two
HOW = {
    "the kernel": {},
    "bias": {"bias": BIAS},
    "softcap": {"softcap": 2.0},
    "a small scale": {"scale": 1e-3},
    "a large scale": {"scale": 30.0},
    "a scale below zero": {"scale": -0.3},
    "a scale of zero": {"scale": 0.0},
}
every_way = pytest.mark.parametrize("way", HOW)


@every_way
@pytest.mark.parametrize("name", [None, *MASKS])
def test_against_the_reference(way, name):
    q, k, v = draw(6, 6)
    mask, visible = (None, None) if name is None else make_mask(name, 6, 6)
    wanted = expected(q, k, v, visible=visible, sinks=SINKS, **HOW[way])
    assert not wanted[:, 2].any()
    how = {"mask": mask, "sinks": SINKS, **HOW[way]}
    torch.testing.assert_close(attention(q, k, v, **how), wanted, **EXACT)
    for weights in (attention_weights(q, k, **how), AttentionMap(q, k, **how).dense()):
        torch.testing.assert_close(weights @ v.repeat_interleave(2, dim=1), wanted, **EXACT)


@every_way
@pytest.mark.parametrize("name", [None, "causal", "window 3", "causal & padding"])
@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES])
def test_gradients(way, name, dtype):
    """Nothing comes of a query whose sink takes all; a sink that is none changes nothing but roundings."""
    given = [x.requires_grad_() for x in draw(6, 6, kv_heads=4, dtype=dtype)]
    how = {"mask": None if name is None else make_mask(name, 6, 6)[0], **HOW[way]}
    sinks = SINKS.clone().requires_grad_()
    found = attention(*given, sinks=sinks, **how)
    alone = attention(*given, **how)[:, 0]
    torch.testing.assert_close(found[:, 0], alone, rtol=0.0, atol=8 * torch.finfo(dtype).eps)
    assert not found[:, 2].any()
    *found, of_sinks = torch.autograd.grad(found.double().square().sum(), (*given, sinks))
    wanted = torch.autograd.grad(alone.double().square().sum(), given)
    for one, other in zip(found, wanted, strict=True):
        # a key's is a sum over 6 queries of products of a few numbers
        close = 64 * torch.finfo(dtype).eps * max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one[:, 0], other[:, 0], rtol=0.0, atol=close)
        assert not one[:, 2].any()
        assert one.isfinite().all()
    assert of_sinks.isfinite().all()
    assert of_sinks[[0, 2]].tolist() == [0.0, 0.0]


def test_the_specification():
    assert reference.softmax([[math.inf, 0.0], [-math.inf, 1e308]]).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert reference.attention_weights([[1.0]], [[2.0], [1e9]], sink=math.inf).tolist() == [[0.0, 0.0]]


def test_statistics_of_a_map_are_numbers():
    q, k, _ = draw(6, 6)
    found = AttentionMap(q, k, mask=Causal(), sinks=SINKS).statistics()
    assert not found.entropy[:, 2].any()
    assert found.log_normalizer[:, 2].isposinf().all()
    for x in (found.entropy, found.largest_weight, found.received, found.pool, found.distance.histogram):
        assert not x.isnan().any()
