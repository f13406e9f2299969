"""Relative or not: what positions do when a number is added to all of them."""

import pytest
import torch

from headwise.check import Vectors, shift
from tests.faults.parts import Layer, attend, turn, turn_by, vectors, waves


def rotary(dtype, of=lambda positions: positions):
    layer = Layer(dtype)

    def f(x, positions):
        q, k, v = layer.project(x)
        return layer.merge(attend(turn(q, of(positions)), turn(k, of(positions)), v))

    return f


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_is_relative(dtype):
    assert shift(rotary(dtype), vectors(dtype)).passed


def test_an_absolute_encoding_is_not():
    layer = Layer(torch.float32)
    report = shift(
        lambda x, positions: layer.merge(attend(*layer.project(x + waves(positions)))), vectors(torch.float32)
    )
    assert report.failing.endswith("when 1 is added to all positions")


@pytest.mark.parametrize(
    ("of", "number"),
    [
        (lambda positions: positions.clamp(min=0), "-3"),
        (lambda positions: positions.bfloat16(), "1000"),
        (lambda positions: torch.where(positions > 15, 0, positions), "17"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_smallest_shift_that_shows_is_named(of, number, dtype):
    report = shift(rotary(dtype, of), vectors(dtype))
    assert report.failing.endswith(f"when {number} is added to all positions")


def test_small_shifts_are_tried_first():
    report = shift(lambda x, positions: x + positions[:, None], Vectors(4), shifts=(1000, 17))
    assert report.failing.endswith("when 17 is added to all positions")


def test_angles_in_float32_are_within_the_tolerance_at_a_million():
    """And the tolerance is no blank cheque: an angle off by a hundredth of its last place more shows."""
    far = {"shifts": (1_000_000,), "lengths": (12,)}
    layer = Layer(torch.float64)

    def f(x, positions, off=0.0):
        q, k, v = layer.project(x)
        frequencies = 10_000.0 ** -(torch.arange(4) / 4)
        angle = positions.float()[:, None] * frequencies
        return layer.merge(attend(turn_by(q, angle), turn_by(k, angle * (1 + off)), v))

    assert shift(f, vectors(torch.float64), **far).passed
    assert not shift(lambda x, positions: f(x, positions, off=2e-6), vectors(torch.float64), **far).passed


def test_refused_positions():
    table = torch.randn(20, 16)

    def f(x, positions):
        if int(positions.min()) < 0:
            raise IndexError("negative")
        return x + 0 * table[positions.clamp(max=19)]

    report = shift(f, vectors(torch.float32))
    assert report.passed
    assert report.tried.endswith("positions from -3 on are refused")
    assert shift(f, vectors(torch.float32), shifts=(-3,)).failing == "it takes none of these shifts"

    report = shift(lambda x, positions: x + 0 * table[positions], Vectors(16))
    assert report.verdict == "not checked"
    assert report.failing.startswith("with 1000 added to all positions it raises IndexError")
