"""Sinks take their share of every softmax, on each path, and are no key.

`bound` of test_precision.py holds with one key more, whose score is exact: in half precision the fused kernel
holds a logit t in two numbers, which are off by 2^-16 |t| together, less than a rounding of the weights.
"""

import pytest
import torch

from headwise.core import AttentionMap, Causal, HeadwiseError, Padding, attention, attention_weights
from headwise.core.block import Scores
from headwise.core.blocks import in_blocks
from tests import oracle
from tests.core.cases import MASKS, SHAPES, draw, expected, make_mask
from tests.core.paths import distance_bias, force_small_blocks
from tests.core.test_precision import DTYPES, bound

EXACT = {"rtol": 0.0, "atol": 1e-12}
SINKS = torch.tensor([-2.0, 0.0, 0.5, 3.0], dtype=torch.float64)


@pytest.mark.parametrize(("queries", "keys"), SHAPES)
@pytest.mark.parametrize("name", [None, *MASKS])
@pytest.mark.parametrize("value_dim", [6, 3, 9])
def test_against_the_reference(queries, keys, name, value_dim):
    q, k, v = draw(queries, keys, value_dim=value_dim)
    mask, visible = (None, None) if name is None else make_mask(name, queries, keys)
    output = attention(q, k, v, mask=mask, sinks=SINKS)
    torch.testing.assert_close(output, expected(q, k, v, visible=visible, sinks=SINKS), **EXACT)


@pytest.mark.parametrize("biased", ["no bias", "tensor", "function"])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("scale", [None, 1.0, -0.3, 0.0, 1e-3])
@pytest.mark.parametrize("name", [None, "causal", "causal & padding"])
def test_with_every_other_option(biased, softcap, scale, name):
    q, k, v = draw(6, 6)
    mask, visible = (None, None) if name is None else make_mask(name, 6, 6)
    bias = None if biased == "no bias" else distance_bias(q, k, slice(0, 6), slice(0, 6), None)
    given = distance_bias if biased == "function" else bias
    how = {"scale": scale, "softcap": softcap}
    output = attention(q, k, v, mask=mask, bias=given, sinks=SINKS, **how)
    wanted = expected(q, k, v, visible=visible, bias=bias, sinks=SINKS, **how)
    torch.testing.assert_close(output, wanted, **EXACT)


def test_the_reference_against_plain_loops():
    q, k, v = draw(4, 5, heads=1, kv_heads=1)
    by_hand = oracle.attention(*(x[0, 0].tolist() for x in (q, k, v)), softcap=1.5, sink=0.7)
    wanted = expected(q, k, v, softcap=1.5, sinks=torch.tensor([0.7], dtype=q.dtype))
    torch.testing.assert_close(wanted[0, 0], torch.tensor(by_hand, dtype=q.dtype), **EXACT)


def test_a_sink_of_zero_is_softmax_plus_one():
    """The share of a key is ``exp(s_j) / (1 + sum_k exp(s_k))``."""
    q, k, v = draw(3, 5, heads=1, kv_heads=1)
    exponentials = (q @ k.mT / 6**0.5).exp()
    wanted = exponentials / (1 + exponentials.sum(-1, keepdim=True)) @ v
    torch.testing.assert_close(attention(q, k, v, sinks=torch.zeros(1)), wanted, **EXACT)


@pytest.mark.parametrize("name", [None, "causal", "padding"])
def test_a_sink_of_minus_infinity_is_none(name):
    q, k, v = draw(6, 6)
    mask = None if name is None else make_mask(name, 6, 6)[0]
    none = torch.full((4,), -torch.inf)
    for how in ({}, {"softcap": 2.0}):
        without = attention(q, k, v, mask=mask, **how)
        torch.testing.assert_close(attention(q, k, v, mask=mask, sinks=none, **how), without, **EXACT)


@pytest.mark.parametrize("name", [None, "causal", "padding"])
def test_a_logit_for_each_query(monkeypatch, name):
    force_small_blocks(monkeypatch)
    q, k, v = draw(6, 6)
    mask = None if name is None else make_mask(name, 6, 6)[0]
    sinks = torch.randn(2, 4, 6, dtype=torch.float64)
    for how in ({}, {"bias": distance_bias}, {"softcap": 2.0}):
        output = attention(q, k, v, mask=mask, sinks=sinks, **how)
        for query in range(6):
            alone = attention(q, k, v, mask=mask, sinks=sinks[0, :, query], **how)[0, :, query]
            torch.testing.assert_close(output[0, :, query], alone, **EXACT)


@pytest.mark.parametrize("name", [None, "causal", "causal & padding"])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_the_weights_and_the_map_rebuild_the_output(name, softcap):
    q, k, v = draw(6, 6)
    mask = None if name is None else make_mask(name, 6, 6)[0]
    how = {"mask": mask, "softcap": softcap, "sinks": SINKS}
    output = attention(q, k, v, **how)
    for weights in (attention_weights(q, k, **how), AttentionMap(q, k, **how).dense()):
        torch.testing.assert_close(weights @ v.repeat_interleave(2, dim=1), output, **EXACT)
        assert (weights.sum(-1) < 1).all()


@pytest.mark.parametrize("name", [None, "causal", "window 3", "causal & padding"])
def test_gradients_of_the_kernel_are_those_of_dense_blocks(monkeypatch, name):
    """The logits' gradients too, summed over rows, queries and both columns that hold them."""
    inputs = [x.requires_grad_() for x in (*draw(6, 6), SINKS.clone())]
    mask = None if name is None else make_mask(name, 6, 6)[0]
    q, k, v, sinks = inputs
    mixture = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    kernel = torch.autograd.grad((attention(q, k, v, mask=mask, sinks=sinks) * mixture).sum(), inputs)
    how = Scores(mask, None, 6**-0.5, 1e9, sinks[None, :, None].expand(2, 4, 6))  # a cap that is none
    dense = torch.autograd.grad((in_blocks(q, k, v, how, 0.0) * mixture).sum(), inputs)
    for one, other in zip(kernel, dense, strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    assert kernel[3].abs().min() > 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [None, "causal", "causal & padding"])
@pytest.mark.parametrize("size", [1.0, 10.0])
def test_within_rounding_of_the_reference(dtype, name, size):
    q, k, v = draw(50, 50, head_dim=16, dtype=dtype)
    mask, visible = (None, None) if name is None else make_mask(name, 50, 50)
    sinks = size * torch.tensor([-0.3, 0.1, 0.377, 0.9])
    wanted = expected(q, k, v, visible=visible, sinks=sinks)
    error = (attention(q, k, v, mask=mask, sinks=sinks).double() - wanted).abs()
    # of the weights without sinks, which are larger; and the sink's own rounding of 2^-16 |t|, twice
    more = expected(q, k, v.abs(), visible=visible) * 2 * 2.0**-16 * sinks.abs().max()
    assert (error <= bound(q, k, v, visible) + more).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head_dim", [16, 20])
def test_half_precision_holds_a_large_logit_in_two_numbers(dtype, head_dim):
    """Beside a score of 100, a logit of 100.3 that became 100.5 would change its ratio to it by a fifth."""
    q = torch.zeros(1, 1, 1, head_dim, dtype=dtype)
    q[..., 0] = 10.0
    scale, v = 1.0, torch.ones(1, 1, 1, head_dim, dtype=dtype)
    share = attention(q, q, v, scale=scale, sinks=torch.tensor([100.3]))[0, 0, 0, 0]
    wanted = 1 / (1 + torch.tensor(0.3, dtype=torch.float64).exp())
    # two halves of 8 bits hold 100.3 to 100 * 2^-17, and the share is rounded three times
    assert abs(share.double() / wanted - 1) <= 100 * 2.0**-17 + 3 * 2.0**-8


def test_nothing_to_see_gives_nothing_though_the_sink_takes_all():
    q, k, v = (x.requires_grad_() for x in draw(4, 4))
    sinks = SINKS.clone().requires_grad_()
    keep = torch.tensor([[False] * 4, [True] * 4])
    for mask in (Padding(keep), Padding(keep) & Causal()):
        output = attention(q, k, v, mask=mask, sinks=sinks)
        assert not output[0].any()
        (gradient,) = torch.autograd.grad(output[0].square().sum() + output[0].sum(), sinks)
        assert not gradient.any()
    assert not attention(q, k[:, :, :0], v[:, :, :0], sinks=sinks).any()


def test_sinks_of_other_heads_are_refused():
    q, k, v = draw(4, 4)
    with pytest.raises(HeadwiseError, match=r"attention: sinks must be logits of shape \[4\]"):
        attention(q, k, v, sinks=torch.zeros(3))
