"""Learned tables at another size: rows between rows of a line or of a grid."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate

from headwise.core.errors import HeadwiseError

Grid = tuple[int, int]


def resized_line(table: Float[Tensor, "rows width"], length: int) -> Float[Tensor, "length width"]:
    """Row j is the old table at ``j * (rows - 1) / (length - 1)``, linear between rows: both ends stay.

    >>> resized_line(torch.tensor([[0.0], [1.0], [4.0]]), 5).flatten()
    tensor([0.0000, 0.5000, 1.0000, 2.5000, 4.0000])
    """
    wide = table.to(torch.promote_types(table.dtype, torch.float32))
    drawn = interpolate(wide.t()[None], size=length, mode="linear", align_corners=True)
    return drawn[0].t().to(table.dtype)


def resized_grid(
    table: Float[Tensor, "cells width"], grid: Grid, new_grid: Grid, antialias: bool
) -> Float[Tensor, "new_cells width"]:
    """The table of a grid of rows and columns at another size, bicubic; a cell's value stands at its centre.

    >>> resized_grid(torch.ones(2 * 3, 1), (2, 3), (4, 5), antialias=False).shape
    torch.Size([20, 1])
    """
    wide = table.to(torch.promote_types(table.dtype, torch.float32))
    picture = wide.t().reshape(1, -1, *grid)
    drawn = interpolate(picture, size=new_grid, mode="bicubic", align_corners=False, antialias=antialias)
    return drawn.flatten(2)[0].t().to(table.dtype)


def check_grid(grid: object, *, who: str, what: str) -> None:
    """Refuse anything but a pair of whole numbers of at least one: rows and columns.

    >>> check_grid((14, 10), who="Learned", what="grid")
    """
    if isinstance(grid, tuple) and len(grid) == 2 and all(type(n) is int and n >= 1 for n in grid):
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected="(rows, columns), two whole numbers of at least 1",
        got=repr(grid),
        why="A grid need not be square",
        do="Give both sides, such as (14, 14)",
    )
