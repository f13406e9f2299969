"""Encodings that add to scores by distance: how much, head by head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.core.figures import RISING, new_figure
from headwise.experiments.encoding.distances import SHIFTS, distances_below
from headwise.experiments.named import named_position
from headwise.experiments.pictures import side_by_side
from headwise.experiments.result import Result
from headwise.experiments.text import by_ratio, new_table, page, paragraph
from headwise.layers import ALiBi, PositionalEncoding

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

_HEADS = 8


@dataclass(frozen=True)
class HeadPenalty:
    """One head: what each distance costs, and the first at which a weight is half that of distance 0.

    ``half_distance`` is None if none of them is that far down. ``slope`` is ALiBi's, whose half distance is
    exactly ``ln 2 / slope``, and None for others.
    """

    head: int
    slope: float | None
    half_distance: float | None
    added: tuple[float, ...]


@dataclass(frozen=True)
class PenaltyReport(Result):
    """``per_head[h].added[i]`` is added to the scores of head h for a key ``distances[i]`` tokens back.

    The query is the last of ``length`` tokens. ``shift_changes``: the largest change in any of them when all
    positions grow by that many tokens.
    """

    name: str
    length: int
    heads: int
    distances: tuple[int, ...]
    per_head: tuple[HeadPenalty, ...]
    shift_changes: dict[int, float]

    def __rich__(self) -> RenderableType:
        changes = " and ".join(f"{change:.2g} (by {shift:,})" for shift, change in self.shift_changes.items())
        title, formula, more = _WORDS[self.name]
        seen = _SHIFTED[self.name == "fire"]
        return page(
            f"{self.name} encoding: {self.heads} heads, distances up to {self.distances[-1]} tokens",
            paragraph(
                f"Nothing is added to embeddings. {title}: each head adds {formula} to its scores.",
                more,
                'The dimensions play no part. "at k": what is added for a key k tokens back.',
            ),
            self._head_table(),
            paragraph(f"All positions shifted, the penalties change by {changes}: {seen}."),
        )

    def figure(self) -> Figure:
        with new_figure(10.0, 4.2, who="encoding") as figure:
            from matplotlib import colormaps

            left, right = side_by_side(figure, (1.0, 1.0))

            for one in self.per_head:
                shade = colormaps[RISING](0.85 * (one.head - 1) / (self.heads - 1))
                label = f"head {one.head}" + (f", slope {_slope(one.slope)}" if one.slope else "")
                left.plot(self.distances, one.added, color=shade, label=label)
                weights = [math.exp(a - one.added[0]) for a in one.added]
                right.plot(self.distances, weights, color=shade, label=label)
            right.axhline(0.5, color="0.6", linestyle=":", zorder=0)
            title, formula, _ = _WORDS[self.name]
            left.set(title=f"{title}: added to the scores", ylabel=f"{formula} (score units)")
            right.set(title="What that leaves of the weight", ylabel="weight, over that of distance 0")
            right.set_ylim(bottom=0)
            for axes in (left, right):
                axes.set_xlabel("distance (tokens)")
            figure.legend(*left.get_legend_handles_labels(), loc="outside right center")
            return figure

    def _head_table(self) -> Table:
        chosen = by_ratio(len(self.distances), at_most=5)[0 if self.name in _NOT_0_AT_0 else 1 :]
        sloped = self.per_head[0].slope is not None
        columns = [f"at {self.distances[i]}" for i in chosen]
        table = new_table("head", *(["slope"] if sloped else []), "half at (tokens)", *columns)
        for one in self.per_head:
            slope = [_slope(one.slope)] if one.slope else []
            half = "none" if one.half_distance is None else f"{one.half_distance:{'.2f' if sloped else ',g'}}"
            table.add_row(str(one.head), *slope, half, *(_cost(one.added[i]) for i in chosen))
        return table


_NOT_0_AT_0 = ("t5", "fire", "sandwich")
_UNTRAINED = "Learned in training; here as drawn at the start."
_SHIFTED = (
    "only the distance counts",
    "a query past the threshold of 512 is read on a scale of its own length",
)
# the name, what is added, and what to know of it
_WORDS = {
    "alibi": (
        "ALiBi",
        "-slope x distance",
        "The weight of a key falls by e^(-slope) with each token and halves every ln 2 / slope.",
    ),
    "t5": (
        "T5",
        "table[bucket of distance]",
        f"Distances of 8 to 127 share 8 ranges, longer ones the last of them. {_UNTRAINED}",
    ),
    "kerple-log": (
        "KERPLE",
        "-a log(1 + r distance)",
        f"The weight falls as a power of the distance. a and r of each head: {_UNTRAINED.lower()}",
    ),
    "kerple-power": (
        "KERPLE",
        "-a distance^r",
        f"r lies between 0 and 2. a and r of each head: {_UNTRAINED.lower()}",
    ),
    "fire": (
        "FIRE",
        "f(log(1 + c distance) / log(1 + c reach))",
        "The reach is the query's position, or a threshold if that is larger."
        f" f, c, threshold: {_UNTRAINED.lower()}",
    ),
    "sandwich": (
        "Sandwich",
        "ratio x sum of cos(distance x wave)",
        "That is what sinusoidal embeddings of 128 dimensions say to each other. The ratio of head h is 1/h.",
    ),
}


def _cost(added: float) -> str:
    return f"{added:.3f}" if added > -100 else f"{added:,.0f}"


def _slope(slope: float) -> str:
    return f"1/{1 / slope:g}"


@torch.no_grad()
def examine_penalty(name: str, length: int) -> PenaltyReport:
    """Read the penalties off the layer, in float64, for the last of ``length`` tokens."""
    encoding = named_position(name, model_dim=_HEADS, heads=_HEADS, max_length=length).double()
    distances = distances_below(length, most=512)
    added = _added(encoding, length, distances, shift=0)
    slopes: list[float | None] = [None] * _HEADS
    if isinstance(encoding, ALiBi):
        slopes = [*encoding.slopes(dtype=torch.float64).tolist()]
    return PenaltyReport(
        name=name,
        length=length,
        heads=_HEADS,
        distances=distances,
        per_head=tuple(
            HeadPenalty(head, slope, _half(slope, distances, row), tuple(row))
            for head, (slope, row) in enumerate(zip(slopes, added.tolist(), strict=True), start=1)
        ),
        shift_changes={
            shift: float((_added(encoding, length, distances, shift) - added).abs().max()) for shift in SHIFTS
        },
    )


def _half(slope: float | None, distances: tuple[int, ...], added: list[float]) -> float | None:
    if slope is not None:
        return math.log(2) / slope
    return next((k for k, a in zip(distances, added, strict=True) if a <= added[0] - math.log(2)), None)


def _added(encoding: PositionalEncoding, length: int, distances: tuple[int, ...], shift: int) -> Tensor:
    """What the last query gets added for keys so far back: ``[heads, distances]``."""
    q = torch.zeros(1, _HEADS, 1, 1, dtype=torch.float64)
    last = length - 1 + shift
    keys = last - torch.tensor(distances)
    return encoding.bias(q, q, torch.tensor([last]), keys, None)[0, :, 0] + 0.0  # so that -0 reads as 0
