"""The matrices by which a rotation turns its vectors, read by turning every unit vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.check.asking import ask

Rotate = Callable[[Tensor, Tensor], Tensor]
"""Takes vectors ``[batch heads length head_dim]`` and positions ``[length]``, and turns the vectors."""

Pairs = Literal["halves", "neighbours"]


def matrices(
    rotate: Rotate, positions: Sequence[int], head_dim: int, dtype: torch.dtype, heads: int = 1
) -> tuple[Float[Tensor, "positions heads head_dim head_dim"], torch.dtype]:
    """What each unit vector becomes at each position, a row for each, in float64; and the output's dtype.

    >>> matrices(lambda x, positions: x * positions[:, None], [2], 2, torch.float32)[0][0, 0]
    tensor([[2., 0.],
            [0., 2.]], dtype=torch.float64)
    """
    count = len(positions)
    x = torch.eye(head_dim, dtype=dtype).repeat(count, 1).expand(1, heads, count * head_dim, head_dim)
    at = torch.tensor(list(positions)).repeat_interleave(head_dim)
    turned = ask(rotate, x.clone(), at, shape=x.shape).detach()
    rows = turned[0].double().reshape(heads, count, head_dim, head_dim)
    return rows.transpose(0, 1), turned.dtype


def expected(
    frequencies: Float[Tensor, " pairs"], positions: Sequence[int], head_dim: int, pairs: Pairs
) -> Float[Tensor, "positions 1 head_dim head_dim"]:
    """The same matrices from the frequencies, in float64; dimensions beyond their pairs stay.

    >>> expected(torch.tensor([0.5]), [1], 2, "halves")[0, 0]
    tensor([[ 0.8776,  0.4794],
            [-0.4794,  0.8776]], dtype=torch.float64)
    """
    found = torch.eye(head_dim, dtype=torch.float64).repeat(len(positions), 1, 1)
    count = len(frequencies)
    pair = torch.arange(count)
    first, second = (pair, pair + count) if pairs == "halves" else (2 * pair, 2 * pair + 1)
    angles = torch.tensor(list(positions), dtype=torch.float64)[:, None] * frequencies.double()
    found[:, first, first] = found[:, second, second] = angles.cos()
    found[:, first, second], found[:, second, first] = angles.sin(), -angles.sin()
    return found[:, None]


def off_by(position: int, dtype: torch.dtype) -> float:
    """How far one number of a turned unit vector may be off at a position.

    The cosine rounds, then the product: one unit of the dtype. Angles in float32 are off by the rounding of
    the exponent, of the power and of the product: four halves of a unit, times the position.
    """
    return float(torch.finfo(dtype).eps + abs(position) * 2 * torch.finfo(torch.float32).eps)


def layout(matrix: Float[Tensor, "head_dim head_dim"], rotary_dim: int, small: float) -> str:
    """Where the first unit vector went, in words: its own place and one other.

    >>> layout(expected(torch.ones(2), [1], 4, "neighbours")[0, 0], rotary_dim=4, small=1e-3)
    'dimension 0 turns into dimension 1, as in the layout "neighbours"'
    """
    row, half = matrix[0].clone(), rotary_dim // 2
    row[0] = 0
    into = int(row.abs().argmax())
    if float(row.abs().max()) <= small:
        return "dimension 0 does not turn"
    name = {1: "neighbours", half: "halves"}.get(into, "") if half > 1 else ""
    way = "" if float(row[into]) > 0 else " the other way round"
    return f"dimension 0 turns{way} into dimension {into}" + (f', as in the layout "{name}"' if name else "")
