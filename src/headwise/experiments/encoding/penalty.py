"""ALiBi: what it takes off a score by distance, head by head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.core.figures import RISING, new_figure
from headwise.experiments.encoding.distances import SHIFTS, distances_below
from headwise.experiments.pictures import side_by_side
from headwise.experiments.result import Result
from headwise.experiments.text import by_ratio, new_table, page, paragraph
from headwise.layers import ALiBi

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

_HEADS = 8


@dataclass(frozen=True)
class HeadPenalty:
    """One head: its slope, the distance at which a weight halves (ln 2 / slope), what each distance costs."""

    head: int
    slope: float
    half_distance: float
    added: tuple[float, ...]


@dataclass(frozen=True)
class PenaltyReport(Result):
    """``per_head[h].added[i]`` is added to the scores of head h at a distance of ``distances[i]`` tokens.

    ``shift_changes``: the largest change in any of them when all positions grow by that many tokens.
    """

    name: str
    length: int
    heads: int
    distances: tuple[int, ...]
    per_head: tuple[HeadPenalty, ...]
    shift_changes: dict[int, float]

    def __rich__(self) -> RenderableType:
        changes = " and ".join(f"{change:g} (by {shift:,})" for shift, change in self.shift_changes.items())
        return page(
            f"alibi encoding: {self.heads} heads, distances up to {self.distances[-1]} tokens",
            paragraph(
                "Nothing is added to embeddings. Each head adds -slope x distance to its scores:",
                "the weight of a key falls by e^(-slope) with each token and halves every ln 2 / slope.",
                'The dimensions play no part. "at k": what is added at a distance of k tokens.',
            ),
            self._head_table(),
            paragraph(f"All positions shifted, the penalties change by {changes}: only the distance counts."),
        )

    def figure(self) -> Figure:
        with new_figure(10.0, 4.2, who="encoding") as figure:
            from matplotlib import colormaps

            left, right = side_by_side(figure, (1.0, 1.0))

            for one in self.per_head:
                shade = colormaps[RISING](0.85 * (one.head - 1) / (self.heads - 1))
                label = f"head {one.head}, slope {_slope(one.slope)}"
                left.plot(self.distances, one.added, color=shade, label=label)
                right.plot(self.distances, [math.exp(a) for a in one.added], color=shade, label=label)
            right.axhline(0.5, color="0.6", linestyle=":", zorder=0)
            left.set(title="ALiBi: added to the scores", ylabel="-slope x distance (score units)")
            right.set(
                title="What that leaves of the weight", ylabel="factor on the weight, e^(-slope x distance)"
            )
            right.set_ylim(0, 1.02)
            for axes in (left, right):
                axes.set_xlabel("distance (tokens)")
            figure.legend(*left.get_legend_handles_labels(), loc="outside right center")
            return figure

    def _head_table(self) -> Table:
        chosen = by_ratio(len(self.distances), at_most=5)[1:]
        columns = [f"at {self.distances[i]}" for i in chosen]
        table = new_table("head", "slope", "half at (tokens)", *columns)
        for one in self.per_head:
            costs = (_cost(one.added[i]) for i in chosen)
            table.add_row(str(one.head), _slope(one.slope), f"{one.half_distance:.2f}", *costs)
        return table


def _cost(added: float) -> str:
    return f"{added:.3f}" if added > -100 else f"{added:,.0f}"


def _slope(slope: float) -> str:
    return f"1/{1 / slope:g}"


def examine_alibi(length: int) -> PenaltyReport:
    """Read the penalties off the layer, in float64, for a query at the far end."""
    alibi = ALiBi(_HEADS)
    distances = distances_below(length, most=512)
    added = _added(alibi, distances, shift=0)
    slopes = alibi.slopes(dtype=torch.float64).tolist()
    return PenaltyReport(
        name="alibi",
        length=length,
        heads=_HEADS,
        distances=distances,
        per_head=tuple(
            HeadPenalty(head, slope, math.log(2) / slope, tuple(row))
            for head, (slope, row) in enumerate(zip(slopes, added.tolist(), strict=True), start=1)
        ),
        shift_changes={
            shift: float((_added(alibi, distances, shift) - added).abs().max()) for shift in SHIFTS
        },
    )


def _added(alibi: ALiBi, distances: tuple[int, ...], shift: int) -> Tensor:
    """What a query at position ``shift`` gets added for keys at these distances: ``[heads, distances]``."""
    q = torch.zeros(1, alibi.heads, 1, 1, dtype=torch.float64)
    keys = torch.tensor(distances) + shift
    return alibi.bias(q, q, torch.tensor([shift]), keys, None)[0, :, 0] + 0.0  # so that -0 reads as 0
