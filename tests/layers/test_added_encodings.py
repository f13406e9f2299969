"""Sinusoidal, Learned, Integers and ALiBi against `reference.py`, in every dtype and far away."""

import numpy as np
import pytest
import torch

from headwise import reference
from headwise.layers import ALiBi, Integers, Learned, Sinusoidal

FAR = 100_003


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 64])
@pytest.mark.parametrize("base", [100.0, 10000.0])
def test_sinusoidal_against_the_reference(dim, base):
    table = Sinusoidal(base).table(torch.arange(50), dim, torch.float64)
    expected = torch.from_numpy(reference.positional_encoding(50, dim, base))
    torch.testing.assert_close(table, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [0, 250, FAR])
def test_sinusoidal_is_right_anywhere_in_any_dtype(dtype, first):
    """The wave and the sum are rounded to float32 once each, the result to its dtype."""
    x, positions = torch.randn(1, 8, 16).to(dtype), torch.arange(first, first + 8)
    waves = torch.from_numpy(reference.positional_encoding(first + 8, 16)[first:])
    exact = x.double() + waves
    error = (Sinusoidal().embed(x, positions).double() - exact).abs()
    assert (error <= 2**-24 * (1 + exact.abs()) + torch.finfo(dtype).eps / 2 * (exact.abs() + 2**-22)).all()


@pytest.mark.parametrize("position", [256, 2048, FAR])
def test_neighbouring_positions_stay_apart_in_bfloat16(position):
    x = torch.zeros(1, 2, 8, dtype=torch.bfloat16)
    one, next_one = Sinusoidal().embed(x, torch.tensor([position, position + 1]))[0]
    assert (one - next_one).abs().max() > 0.1


@pytest.mark.parametrize("dim", [6, 7])
def test_moving_by_k_turns_every_hand_by_the_same_angle(dim):
    """``PE[p + k] = R_k PE[p]``; the last sine of an odd width has no cosine beside it to turn with."""
    table = Sinusoidal().table(torch.arange(30), dim, torch.float64).numpy()
    for i in range(dim // 2):
        angle = 5 / 10000.0 ** (2 * i / dim)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        hand = table[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(hand[5:], hand[:-5] @ turn.T, rtol=0, atol=1e-12)


def test_learned_adds_the_row_of_each_position():
    learned = Learned(10, 4)
    x, positions = torch.randn(2, 3, 4), torch.tensor([[0, 9, 3], [1, 1, 0]])
    rows = [[learned.table[p].tolist() for p in row] for row in positions.tolist()]
    assert torch.equal(learned.embed(x, positions), x + torch.tensor(rows))


def test_learned_starts_from_the_deviation_it_was_given():
    table = Learned(1000, 64, std=0.5).table
    # 64,000 draws: off by 1 / sqrt(2 * 64000) = 0.3 percent, or by five times that once in a million
    assert table.std().item() == pytest.approx(0.5, rel=0.015)


def test_integers_adds_the_number_itself():
    x = torch.zeros(1, 3, 2)
    assert Integers().embed(x, torch.tensor([4, 0, 7]))[0].tolist() == [[4.0, 4.0], [0.0, 0.0], [7.0, 7.0]]


@pytest.mark.parametrize("heads", range(1, 41))
def test_alibi_slopes_against_the_reference(heads):
    slopes = ALiBi(heads).slopes(dtype=torch.float64)
    torch.testing.assert_close(slopes, torch.from_numpy(reference.alibi_slopes(heads)), rtol=0.0, atol=1e-12)


def alibi_bias(heads, queries, keys, dtype=torch.float64):
    q, k = (
        torch.zeros(1, heads, len(queries), 2, dtype=dtype),
        torch.zeros(1, heads, len(keys), 2, dtype=dtype),
    )
    return ALiBi(heads).bias(q, k, torch.tensor(queries), torch.tensor(keys), None)[0]


@pytest.mark.parametrize("heads", [1, 3, 8, 12])
def test_alibi_against_the_reference(heads):
    queries, keys = [5, 6, FAR], [0, 7, 6, FAR + 2000]
    expected = torch.from_numpy(reference.alibi(heads, queries, keys))
    # distances of 1e5 times slopes right to 1e-16
    torch.testing.assert_close(alibi_bias(heads, queries, keys), expected, rtol=1e-14, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_alibi_tells_every_distance_apart_in_half_precision(dtype):
    """The bias is float32 whatever the queries are: whole numbers up to 2^24 are exact in it."""
    keys = [*range(250, 270), *range(2040, 2060), FAR, FAR + 1]
    bias = alibi_bias(8, [0], keys, dtype)
    assert bias.dtype == torch.float32
    expected = torch.from_numpy(reference.alibi(8, [0], keys)).float()
    assert torch.equal(bias, expected), "slopes of 8 heads are powers of two, so nothing rounds"
    assert len(set(bias[0, 0].tolist())) == len(keys)
