"""Dropout: the right share, scaled back up, each weight on its own, and the same in the backward pass."""

import math

import pytest
import torch

from headwise.core import Causal, attention
from tests.core.cases import draw
from tests.core.paths import force_small_blocks

LENGTH, HEADS = 64, 4


def dropped_weights(rate, mask=None):
    """Equal scores and one-hot values: the output is the matrix of weights itself."""
    zeros = torch.zeros(2, HEADS, LENGTH, LENGTH)
    return attention(zeros, zeros, torch.eye(LENGTH).expand_as(zeros), mask=mask, dropout=rate)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("rows", [512, 5])
def test_the_share_and_the_size_of_what_stays(monkeypatch, rate, rows):
    force_small_blocks(monkeypatch, rows)
    weights = dropped_weights(rate)
    stays = weights[weights != 0]
    torch.testing.assert_close(stays, torch.full_like(stays, 1 / LENGTH / (1 - rate)))
    share = (weights == 0).double().mean().item()
    # of N independent weights the dropped share is off by 5 standard errors once in two million
    assert abs(share - rate) < 5 * math.sqrt(rate * (1 - rate) / weights.numel())


def test_each_row_head_query_and_key_is_dropped_on_its_own(monkeypatch):
    """Two lines of 64 coins agree everywhere with chance 2^-64, so no axis shares its coins."""
    force_small_blocks(monkeypatch, rows=16)
    dropped = dropped_weights(0.5) == 0
    for axis in range(4):
        lines = dropped.movedim(axis, 0).flatten(1)
        assert all(not torch.equal(lines[0], other) for other in lines[1:])
    blocks = dropped.unflatten(2, (-1, 16)).movedim(2, 0)
    assert all(not torch.equal(blocks[0], other) for other in blocks[1:])


def test_no_dropped_weight_lets_the_future_in():
    weights = dropped_weights(0.5, Causal())
    assert not weights.triu(1).any()
    assert weights.tril().any()


@pytest.mark.parametrize("rows", [512, 2])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_the_backward_pass_drops_the_same_weights(monkeypatch, rows, softcap):
    """Linear in the values: ``<gradient to v, v> = <gradient, output>`` if both drew the same coins."""
    force_small_blocks(monkeypatch, rows)
    q, k, v = (x.requires_grad_() for x in draw(9, 9))
    output = attention(q, k, v, mask=Causal(), dropout=0.5, softcap=softcap)
    gradient = torch.randn_like(output)
    (to_values,) = torch.autograd.grad(output, v, gradient)
    torch.testing.assert_close((to_values * v).sum(), (gradient * output).sum(), rtol=0.0, atol=1e-12)


def test_a_rate_of_zero_changes_nothing_and_the_seed_decides_the_rest():
    q, k, v = draw(6, 6)
    assert torch.equal(attention(q, k, v, dropout=0.0), attention(q, k, v))
    torch.manual_seed(1)
    first = attention(q, k, v, dropout=0.5)
    assert not torch.equal(attention(q, k, v, dropout=0.5), first)
    torch.manual_seed(1)
    assert torch.equal(attention(q, k, v, dropout=0.5), first)
