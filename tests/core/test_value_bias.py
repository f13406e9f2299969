"""What values gain by who reads them: the same weights, after dropout, on every path, through blocks."""

import pytest
import torch
from torch.autograd import gradcheck

from headwise.core import Causal, HeadwiseError, attention, attention_weights
from tests.core.cases import draw, make_mask
from tests.core.paths import force_small_blocks

EXACT = {"rtol": 0.0, "atol": 1e-12}  # sums of ten float64 terms of size about 1
QUERIES, KEYS, WIDTH = 5, 7, 6
HOW = {
    "plain": {},
    "softcap": {"softcap": 2.0},
    "bias": {"bias": torch.linspace(-1, 1, QUERIES * KEYS, dtype=torch.float64).view(1, 1, QUERIES, KEYS)},
    "sinks": {"sinks": torch.tensor([0.5, -1.0, 0.0, 2.0], dtype=torch.float64)},
}


def of_pairs(width=WIDTH, queries=QUERIES, keys=KEYS):
    return torch.randn(4, queries, keys, width, dtype=torch.float64)


def gains(pairs):
    """The function for a vector of every pair of a query and a key, as only a test can hold them."""

    def value_bias(weights, rows, columns):
        return torch.einsum("bhij,hijd->bhid", weights, pairs[:, rows, columns])

    return value_bias


@pytest.mark.parametrize("mask_name", [None, "causal", "window 2 + 2", "padding", "explicit"])
@pytest.mark.parametrize("how", HOW)
def test_it_is_the_sum_over_the_weights(monkeypatch, how, mask_name):
    q, k, v = draw(QUERIES, KEYS)
    pairs = of_pairs()
    given = {**HOW[how], "mask": None if mask_name is None else make_mask(mask_name, QUERIES, KEYS)[0]}
    weights = attention_weights(q, k, **given)
    seen = v.repeat_interleave(2, dim=1)[:, :, None] + pairs
    expected = torch.einsum("bhij,bhijd->bhid", weights, seen)
    torch.testing.assert_close(attention(q, k, v, **given, value_bias=gains(pairs)), expected, **EXACT)
    force_small_blocks(monkeypatch)
    torch.testing.assert_close(attention(q, k, v, **given, value_bias=gains(pairs)), expected, **EXACT)


@pytest.mark.parametrize("kept", [0, 2**24])
def test_gradients(monkeypatch, kept):
    """To queries, keys, values and what the function holds, in blocks that are kept or recomputed."""
    force_small_blocks(monkeypatch, kept=kept)
    mask = make_mask("causal & padding", 3, 4)[0]
    leaves = [x.requires_grad_() for x in (*draw(3, 4, kv_heads=1), of_pairs(6, 3, 4))]
    assert gradcheck(
        lambda q, k, v, pairs: attention(q, k, v, mask=mask, value_bias=gains(pairs)), leaves, fast_mode=True
    )


@pytest.mark.parametrize("rows", [512, 5])
def test_what_is_dropped_is_dropped_from_both(monkeypatch, rows):
    """One-hot values, or one-hot gains: with the same coins the output is the same dropped weights."""
    force_small_blocks(monkeypatch, rows=rows)
    zeros, one_hot = torch.zeros(1, 4, 16, 16), torch.eye(16)

    def dropped(values, of_key):
        torch.manual_seed(3)
        return attention(
            zeros,
            zeros,
            values.expand_as(zeros),
            dropout=0.5,
            value_bias=lambda weights, *_: weights @ of_key,
        )

    by_values = dropped(one_hot, torch.zeros(16, 16))
    assert set(by_values.unique().tolist()) == {0.0, 2 / 16}
    assert torch.equal(dropped(torch.zeros(16, 16), one_hot), by_values)


def test_a_query_without_keys_gains_nothing():
    """To the last bit, forward and backward, where none is visible and where there is none at all."""
    q, k, v = draw(9, 4)
    pairs = of_pairs(6, 9, 4).requires_grad_()
    output = attention(q, k, v, mask=Causal(), value_bias=gains(pairs))
    assert not output[:, :, :5].any()
    output.sum().backward()
    assert not pairs.grad[:, :5].any()
    assert pairs.grad[:, 5:, 0].all()
    none = attention(q, k[:, :, :0], v[:, :, :0], value_bias=gains(pairs[:, :, :0]))
    assert not none.any()


@pytest.mark.parametrize("shape", [(2, 4, 5, 7), (4, 5, 6), (1, 4, 5, 6)])
def test_another_shape_is_refused(shape):
    with pytest.raises(HeadwiseError, match="what the value_bias function returns must be"):
        attention(*draw(QUERIES, KEYS), value_bias=lambda weights, rows, columns: torch.zeros(shape))
