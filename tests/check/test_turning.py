"""Rotations: laws that hold at every position, and precision far from the start."""

import pytest
import torch

from headwise import Rotary
from headwise.check import angles, rotation

FREQUENCIES = 10000.0 ** (-torch.arange(8, dtype=torch.float64) / 8)


def turn(x, angle):
    a, b = x.chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1).to(x.dtype)


def plain(x, positions):
    return turn(x, positions[:, None].float() * FREQUENCIES[: x.shape[-1] // 2].float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_right_rotation_passes(dtype):
    for pairs in ("halves", "neighbours"):
        rotate = Rotary(pairs=pairs).turn
        assert rotation(rotate, pairs=pairs, dtype=dtype, shifts=(1, 1000, -7)).passed
        assert angles(rotate, head_dim=16, dtypes=(dtype,), frequencies=FREQUENCIES, pairs=pairs).passed
        assert angles(rotate, head_dim=16, dtypes=(dtype,)).passed


def test_the_layout_is_said_and_a_claimed_one_is_held():
    report = rotation(Rotary(pairs="neighbours").turn)
    assert 'dimension 0 turns into dimension 1, as in the layout "neighbours"' in report.tried
    report = rotation(Rotary(pairs="neighbours").turn, pairs="halves")
    assert report.failing.endswith('not into dimension 4, as the layout "halves" says')
    backward = rotation(lambda x, p: plain(x, -p), pairs="halves")
    assert "the other way round" in backward.failing


def test_a_sign_breaks_the_law():
    def wrong(x, positions):
        angle = positions[:, None] * FREQUENCIES[:4].float()
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() + b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    assert rotation(wrong).failing.startswith("positions 0 and 0 do not differ as 1 and 1 do")


def test_lengths_may_change_where_it_is_claimed():
    def longer(x, positions):
        return 1.2 * plain(x, positions)

    assert rotation(longer, scaled=True).passed
    assert rotation(longer).failing == "a unit vector along dimension 0 has length 1.2 at position 0"
    up, down = (lambda x, p, sign=sign: plain(x, p) * 1.01 ** (sign * p[:, None]) for sign in (1, -1))
    assert rotation(up, keys=down, decays=True).passed
    assert not rotation(up, decays=True).passed


def test_negative_positions_are_tried_where_shifts_are_negative():
    def clamped(x, positions):
        return plain(x, positions.clamp(min=0))

    assert rotation(clamped).passed
    assert rotation(clamped, shifts=(-2,)).failing.startswith(
        "positions 0 and 1 do not differ as -2 and -1 do"
    )


def test_positions_that_are_one_in_low_precision():
    def low(x, positions):
        return turn(x, (positions.to(x.dtype)[:, None] * FREQUENCIES.to(x.dtype)).float())

    report = angles(low, head_dim=16, positions=(257,))
    assert report.failing == "in bfloat16, positions 256 and 257 turn alike"
    assert angles(low, head_dim=16, dtypes=(torch.float32,)).passed


def test_frequencies_that_are_rounded_show_beside_the_right_ones():
    def rounded(x, positions):
        return turn(x, positions[:, None] * FREQUENCIES.bfloat16().float())

    assert angles(rounded, head_dim=16).passed  # a law of its own, which it keeps
    report = angles(rounded, head_dim=16, frequencies=FREQUENCIES)
    assert report.failing.startswith("in float32, the turn at position 255 is 0.039 off")


def test_positions_that_collapse_before_they_arrive():
    def few(x, positions):
        return plain(x, positions.bfloat16().float())

    assert angles(few, head_dim=16, dtypes=(torch.float32,)).verdict == "fails"


def test_another_dtype_comes_back():
    report = angles(lambda x, p: plain(x.float(), p), head_dim=16)
    assert report.failing == "vectors in bfloat16 come back in float32"


def test_what_cannot_be_asked_is_not_checked():
    def table(x, positions):
        return plain(x, torch.arange(512)[positions])

    report = angles(table, head_dim=16)
    assert report.verdict == "not checked"
    assert "it raises IndexError" in report.failing
    assert "positions= it knows" in report.cause
    assert rotation(lambda x, p: x[..., :2]).verdict == "not checked"
