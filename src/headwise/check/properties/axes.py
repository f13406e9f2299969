"""Are height and width told apart?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from headwise.check.asking import MisbehavedError, ask, checked
from headwise.check.report import Report, failed, judged
from headwise.check.rounding import same_kernels

Grid = tuple[int, int]

_CAUSE = (
    "Usually height and width swapped in a meshgrid or a reshape, or a square assumed from the number of "
    "cells, which square grids hide: look at the order of the axes wherever a grid is made or flattened"
)


class _Found(NamedTuple):
    rows: Tensor
    columns: Tensor
    """Which channels change along a column, from row to row, and which along a row."""
    both: Tensor
    """How far each channel is from depending on one axis alone."""
    limit: float


@checked("axes", do="Pass a callable that takes a height and a width, and gives [height * width, channels]")
def axes(
    encode: Callable[[int, int], Tensor],
    *,
    grids: tuple[Grid, ...] = ((2, 3), (4, 7), (7, 4), (1, 5)),
    first: Literal["rows", "columns"] | None = None,
    trained: Grid | None = None,
) -> Report:
    """Moving along one axis of a grid that is not square changes the channels of that axis alone.

    ``encode(height, width)`` gives what the cells get, row by row: ``[height * width, channels]``, or
    ``[height, width, channels]``: an embedding, or the cosines and sines of a rotation. Each channel must
    depend on the row or on the column, not on both, and both axes must matter. ``first`` claims which axis
    the first half of the channels follows. ``trained`` is the grid of which the others are resized.

    To check how a table of positions is resized, encode a table whose channels are the row and the column:
    ``lambda h, w: resize(ramps(trained), h, w)``.

    >>> from headwise.check import axes
    >>> def encode(height, width):  # the axes are swapped
    ...     column, row = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="ij")
    ...     return torch.stack((row.flatten(), column.flatten()), -1).float()
    >>> axes(encode).failing
    'on a grid of 2 rows and 3 columns, channel 0 depends on the row and on the column'
    """
    grids = grids if trained is None else (trained, *grids)
    tried = "grids of " + ", ".join(f"{height} x {width}" for height, width in grids)
    largest = (0.0, 0.0)
    for height, width in grids:
        words = f"on a grid of {height} rows and {width} columns"
        try:
            table = _table(encode, height, width)
        except MisbehavedError as error:
            _table(encode, 2, 2)  # what takes no square either is not called right
            return failed("axes", tried=tried, failing=f"{words}, {error}", cause=_CAUSE)
        found = _examine(table)
        worst = float(found.both.max())
        failing = _words(found, height, width, first)
        if failing:
            failing = f"{words}, {failing}"
            return failed("axes", worst, found.limit, tried=tried, failing=failing, cause=_CAUSE)
        largest = max(largest, (worst, found.limit))
    return judged("axes", *largest, tried=tried, failing="", cause=_CAUSE)


def _table(encode: Callable[[int, int], Tensor], height: int, width: int) -> Tensor:
    table = ask(encode, height, width).detach()
    if table.shape[:-1] not in {(height * width,), (height, width)}:
        shape = f"{list(table.shape)} where [{height * width}, channels] was asked for"
        raise MisbehavedError(f"it gives {shape}")
    if not table.isfinite().all():
        raise MisbehavedError("it gives numbers that are not finite")
    return table.reshape(height, width, -1)


def _examine(table: Tensor) -> _Found:
    limit = same_kernels(table) if table.is_floating_point() else 0.0
    table = table.double()
    rows = (table - table[:1]).abs().amax((0, 1))
    columns = (table - table[:, :1]).abs().amax((0, 1))
    return _Found(rows > limit, columns > limit, torch.minimum(rows, columns), limit)


def _words(found: _Found, height: int, width: int, first: str | None) -> str:
    """What is wrong, or nothing."""
    if (mixed := (found.rows & found.columns).nonzero()).numel():
        return f"channel {int(mixed[0])} depends on the row and on the column"
    for name, matters, size in (("row", found.rows, height), ("column", found.columns, width)):
        if size > 1 and not matters.any():
            return f"no channel depends on the {name}"
    if first is None or height == 1 or width == 1:
        return ""
    half = len(found.rows) // 2
    other = found.columns if first == "rows" else found.rows
    if (wrong := other[:half].nonzero()).numel():
        follows = "column" if first == "rows" else "row"
        return (
            f"channel {int(wrong[0])} follows the {follows}, where the first half should follow the {first}"
        )
    return ""
