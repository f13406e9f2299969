"""Picking a token: against plain loops, with frequencies where chance decides."""

import math

import pytest
import torch

from headwise.layers import Greedy, Sample

LOGITS = [2.0, -1.0, 0.5, 1.9, -9.0]


def chances(logits, temperature=1.0, top_k=None, top_p=1.0):
    """The probability of each token, by plain floats: leave out, then divide by what is left."""
    weights = [math.exp(one / temperature) for one in logits]
    order = sorted(range(len(logits)), key=lambda i: -weights[i])[:top_k]
    total, kept, share = sum(weights[i] for i in order), [], 0.0
    for i in order:
        if share < top_p:
            kept.append(i)
        share += weights[i] / total
    left = sum(weights[i] for i in kept)
    return [weights[i] / left if i in kept else 0.0 for i in range(len(logits))]


CASES = [
    {},
    {"temperature": 0.5},
    {"temperature": 3.0},
    {"top_k": 1},
    {"top_k": 3},
    {"top_k": 9},
    {"top_p": 0.4},
    {"top_p": 0.8},
    {"top_p": 1.0},
    {"temperature": 2.0, "top_k": 4, "top_p": 0.9},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_are_drawn_as_often_as_they_should(options, dtype):
    """Of 20,000 draws a share p has the deviation sqrt(p (1 - p) / 20,000): five of them, and 0 for p = 0."""
    draws = 20_000
    logits = torch.tensor([LOGITS], dtype=dtype).expand(draws, -1)
    picked = Sample(**options)(logits, torch.Generator().manual_seed(1))
    assert picked.shape == (draws,)
    for token, chance in enumerate(chances(LOGITS, **options)):
        share = (picked == token).sum().item() / draws
        assert abs(share - chance) <= 5 * math.sqrt(chance * (1 - chance) / draws) + 1e-12, (
            token,
            chance,
            share,
        )


def test_the_same_seed_picks_the_same_and_rows_differ():
    logits = torch.zeros(50, 100)
    first, again, other = (Sample()(logits, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(first.unique()) > 20


def test_greedy_takes_the_first_of_the_highest():
    assert Greedy()(torch.tensor([[1.0, 3.0, 3.0], [0.0, -1.0, -2.0]])).tolist() == [1, 0]


def test_half_precision_keeps_many_tokens_apart():
    """In bfloat16 a sum of many shares of 1/1000 stops growing at a quarter: no token would be left out."""
    logits = torch.zeros(4000, 1000, dtype=torch.bfloat16)
    picked = Sample(top_p=0.5)(logits, torch.Generator().manual_seed(0))
    assert 450 <= len(picked.unique()) <= 501
