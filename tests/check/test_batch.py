"""Rows that depend on each other, in the smallest batch that shows it."""

import pytest
import torch

from headwise.check import Tokens, Vectors, batch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_independent_rows_pass(dtype):
    assert batch(lambda x: x.cumsum(1) @ torch.ones(4, 4, dtype=dtype), Vectors(4, dtype)).passed


FIRST = {float(Vectors(4).make(3, length, seed=0)[0, 0, 0]) for length in (1, 2, 3, 4, 5)}
FAULTS = {
    "in a batch of two": lambda x: x - x.mean(0),
    "in a batch of three": lambda x: x + (x.shape[0] == 3),
    "in a batch of three in another order": lambda x: (
        x + float(len(x) == 3 and float(x[0, 0, 0]) not in FIRST)
    ),
    "in a batch where rows come twice": lambda x: x + float(len(x.unique(dim=0)) < len(x)),
}


@pytest.mark.parametrize("words", FAULTS)
def test_the_smallest_batch_is_named(words):
    report = batch(FAULTS[words], Vectors(4))
    assert report.failing.endswith(words)
    assert report.failing.startswith("row ")


def test_a_fault_of_single_places_alone():
    report = batch(lambda x: x + torch.arange(len(x))[:, None, None] * (x.shape[1] == 1), Vectors(4))
    assert report.failing.startswith("row 1 at 0 of 1 is no longer what it is alone")


def test_token_models():
    table = torch.randn(9, 4)
    assert batch(lambda x: table[x], Tokens(9)).passed
    assert not batch(lambda x: table[x] + x.float().mean(), Tokens(9)).passed
