"""`attention` and `attention_weights` in float64 against `reference.py`."""

import pytest
import torch

from headwise.core import Causal, attention, attention_weights
from tests import oracle
from tests.core.cases import MASKS, SHAPES, draw, expected, make_mask

# Both sides are float64 with sums of at most 10 terms of size about 1: each is right to about 1e-14.
EXACT = {"rtol": 0.0, "atol": 1e-12}
every_shape = pytest.mark.parametrize(("queries", "keys"), SHAPES)


def bias_like(q, k):
    return torch.randn(2, 4, q.shape[2], k.shape[2], dtype=torch.float64)


def as_function(bias):
    """The same bias, made block by block; it must be asked for what it is then used for."""

    def block(q, k, rows, columns, visible):
        assert q.shape[2] == rows.stop - rows.start
        assert k.shape[2] == columns.stop - columns.start
        assert visible is None or visible.shape[-2] in (1, q.shape[2])
        assert visible is None or visible.shape[-1] == k.shape[2]
        return bias[:, :, rows, columns]

    return block


@every_shape
@pytest.mark.parametrize("name", [None, *MASKS])
@pytest.mark.parametrize("biased", ["no bias", "tensor", "function"])
def test_against_the_reference(queries, keys, name, biased):
    q, k, v = draw(queries, keys)
    mask, visible = (None, None) if name is None else make_mask(name, queries, keys)
    bias = None if biased == "no bias" else bias_like(q, k)
    given = as_function(bias) if biased == "function" else bias
    output = attention(q, k, v, mask=mask, bias=given)
    torch.testing.assert_close(output, expected(q, k, v, visible=visible, bias=bias), **EXACT)


@every_shape
@pytest.mark.parametrize("name", [None, "causal", "padding", "causal & padding"])
def test_the_weights_rebuild_the_output(queries, keys, name):
    q, k, v = draw(queries, keys)
    mask, visible = (None, None) if name is None else make_mask(name, queries, keys)
    weights = attention_weights(q, k, mask=mask)
    rebuilt = weights @ v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(rebuilt, expected(q, k, v, visible=visible), **EXACT)
    seen = torch.ones_like(weights[:, :1]) if visible is None else visible[:, None].to(weights.dtype)
    sums = seen.any(-1).to(weights.dtype).expand(weights.shape[:-1])
    torch.testing.assert_close(weights.sum(-1), sums, **EXACT)
    assert not weights[(seen == 0).expand_as(weights)].any(), "a hidden key weighs exactly nothing"


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("value_dim", [6, 1, 9, 150])  # the last is too wide for the fused kernel
@pytest.mark.parametrize("name", [None, "causal", "padding"])
def test_grouped_heads_and_other_value_widths(kv_heads, value_dim, name):
    q, k, v = draw(5, 5, kv_heads=kv_heads, value_dim=value_dim)
    mask, visible = (None, None) if name is None else make_mask(name, 5, 5)
    output = attention(q, k, v, mask=mask)
    torch.testing.assert_close(output, expected(q, k, v, visible=visible), **EXACT)


@pytest.mark.parametrize("scale", [1.0, 0.01, -0.5, 0.0])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", [None, "causal", "padding"])
def test_a_given_scale_replaces_the_usual_one(scale, biased, name):
    q, k, v = draw(6, 6)
    bias = bias_like(q, k) if biased else None
    mask, visible = (None, None) if name is None else make_mask(name, 6, 6)
    output = attention(q, k, v, mask=mask, bias=bias, scale=scale)
    wanted = expected(q, k, v, visible=visible, bias=bias, scale=scale)
    torch.testing.assert_close(output, wanted, **EXACT)


@pytest.mark.parametrize("softcap", [0.5, 50.0])
def test_softcap_comes_after_the_scale_and_before_the_bias(softcap):
    q, k, v = draw(4, 6, heads=1, kv_heads=1)
    bias = bias_like(q, k)[:, :1]
    mask, visible = make_mask("causal & padding", 4, 6)
    output = attention(q, k, v, mask=mask, bias=bias, softcap=softcap, scale=1.3)
    for row in range(2):
        by_hand = oracle.attention(
            *(x[row, 0].tolist() for x in (q, k, v)),
            visible=visible[row].tolist(),
            bias=bias[row, 0].tolist(),
            softcap=softcap,
            scale=1.3,
        )
        torch.testing.assert_close(output[row, 0], torch.tensor(by_hand, dtype=q.dtype), **EXACT)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 4)])
def test_a_bias_may_be_shared_by_rows_or_heads(shape):
    q, k, v = draw(4, 6)
    bias = torch.randn(*shape, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(attention(q, k, v, bias=bias), expected(q, k, v, bias=bias), **EXACT)


def test_the_last_query_sees_what_it_sees_alone():
    """Decoding with a cache, one or three tokens at a time, equals the pass over the whole."""
    q, k, v = draw(8, 8)
    whole = attention(q, k, v, mask=Causal())
    for new in (1, 3):
        newest = attention(q[:, :, -new:], k, v, mask=Causal())
        torch.testing.assert_close(newest, whole[:, :, -new:], **EXACT)


@pytest.mark.parametrize("how", [{}, {"mask": Causal()}, {"softcap": 5.0}])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 3, 0), (2, 0, 3), (0, 3, 3), (2, 0, 0)])
@pytest.mark.parametrize("biased", [False, True])
def test_sizes_of_zero(batch, queries, keys, biased, how):
    q, k = torch.randn(batch, 4, queries, 6), torch.randn(batch, 2, keys, 6)
    bias = torch.zeros(1, 1, queries, keys) if biased else None
    output = attention(q, k, k, bias=bias, **how)
    assert output.shape == q.shape
    assert not output.any()
    assert attention_weights(q, k, bias=bias, **how).shape == (batch, 4, queries, keys)


def test_large_scores_do_not_overflow():
    q, k, v = draw(4, 6)
    output = attention(q * 1e4, k, v)
    # scores of 1e5 are right to 1e5 * 1e-16 * 10 terms = 1e-10, and so are the weights
    torch.testing.assert_close(output, expected(q * 1e4, k, v), rtol=0.0, atol=1e-9)
