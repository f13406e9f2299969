"""Angles of positions, exact at any distance and in any dtype."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError


def frequencies(dim: int, base: float, device: torch.device | None = None) -> Float[Tensor, " pairs"]:
    """Radians a token of each pair of dimensions: ``base ** (-2 i / dim)``, i = 0 .. ceil(dim / 2) - 1.

    >>> frequencies(4, base=10000.0)
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    return base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=_wide(device)) / dim)


def cosines_and_sines(
    positions: Int[Tensor, "*batch length"], dim: int, base: float, dtype: torch.dtype
) -> tuple[Float[Tensor, "*batch length pairs"], Float[Tensor, "*batch length pairs"]]:
    """Cosine and sine of ``position * frequency``.

    The angle is taken in float64: near position 100,000 a float32 angle is off by up to 0.007 radians.

    >>> cosine, sine = cosines_and_sines(torch.tensor([0, 100_003]), dim=2, base=10000.0, dtype=torch.float32)
    >>> sine[:, 0]
    tensor([ 0.0000, -0.1764])
    """
    angles = wide_positions(positions)[..., None] * frequencies(dim, base, positions.device)
    return waves(angles, positions.device, dtype)


def wide_positions(positions: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Positions as float64 numbers, on a device that has them.

    >>> wide_positions(torch.tensor([2**24 + 1]))
    tensor([16777217.], dtype=torch.float64)
    """
    return positions.to(_wide(positions.device), torch.float64)


def waves(
    angles: Float[Tensor, "*shape"], device: torch.device, dtype: torch.dtype, size: Tensor | float = 1.0
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """``size`` times cosine and sine of float64 angles, rounded once to ``dtype``, on ``device``.

    >>> cosine, sine = waves(torch.zeros(2).double(), torch.device("cpu"), torch.float32, size=3.0)
    >>> cosine, sine
    (tensor([3., 3.]), tensor([0., 0.]))
    """
    cosine, sine = angles.cos(), angles.sin()
    if not isinstance(size, float) or size != 1.0:
        cosine, sine = cosine * size, sine * size
    return cosine.to(device, dtype), sine.to(device, dtype)


def check_base(base: object, *, who: str) -> None:
    """Refuse anything but a finite number above 0.

    >>> check_base(10000.0, who="Rotary")
    """
    if isinstance(base, (int, float)) and 0 < base < math.inf:
        return
    raise HeadwiseError(
        who=who,
        what="base",
        expected="a finite number above 0",
        got=repr(base),
        why="Pair i turns by base^(-2i / dim) for each token",
        do="Use 10000, the published value",
    )


def _wide(device: torch.device | None) -> torch.device | None:
    return (
        torch.device("cpu") if device is not None and device.type == "mps" else device
    )  # mps has no float64
