"""The rotary encoding: what turning queries and keys does to their scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.core.figures import ORANGE, new_figure
from headwise.experiments.encoding.distances import SHIFTS, distances_below
from headwise.experiments.pictures import draw_curve
from headwise.experiments.result import Result
from headwise.experiments.text import bar, by_ratio, evenly, new_table, page, paragraph, whole
from headwise.layers import Rotary
from headwise.layers.positions.angles import frequencies

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

_VECTORS = 256
_SEED = 0


@dataclass(frozen=True)
class TurningReport(Result):
    """Scores are dot products of unit vectors, before the scale: 1 for a vector with itself, unturned.

    ``ones[i]``: a query and a key that both point along (1, 1, .., 1), ``distances[i]`` tokens apart.
    ``random`` and ``deviations``: mean and standard deviation of the same over ``vectors`` random
    directions. ``shift_changes``: the largest change in the score of any random query and key when all
    positions grow by that many tokens.
    """

    name: str
    length: int
    dim: int
    base: float
    vectors: int
    wavelengths: tuple[float, ...]
    distances: tuple[int, ...]
    ones: tuple[float, ...]
    random: tuple[float, ...]
    deviations: tuple[float, ...]
    shift_changes: dict[int, float]

    def __rich__(self) -> RenderableType:
        changes = " and ".join(f"{change:.0e} (by {shift:,})" for shift, change in self.shift_changes.items())
        return page(
            f"rotary encoding: heads of {self.dim} dimensions, base {whole(self.base)}",
            paragraph(
                "Nothing is added. Each pair of dimensions of a query or key turns by p / base^(2i/dim)",
                "radians. The fastest pair turns once in 2 pi = 6.28 tokens whatever the base;",
                "the base sets the slowest.",
            ),
            self._wavelength_table(),
            paragraph(
                "Both turn, so a score keeps only the distance. All positions shifted, the scores of random",
                f"queries and keys change by at most {changes}: rounding, in float64.",
            ),
            paragraph(
                "Score of two equal unit vectors, k tokens apart (1 without the encoding).",
                f"Along (1, 1, .., 1), and the mean and deviation over {self.vectors} random directions:",
            ),
            self._score_table(),
        )

    def figure(self) -> Figure:
        with new_figure(7.5, 4.2, who="encoding") as figure:
            axes = figure.subplots()
            pairs = list(zip(self.random, self.deviations, strict=True))
            low, high = [m - d for m, d in pairs], [m + d for m, d in pairs]
            axes.fill_between(
                self.distances,
                low,
                high,
                color=ORANGE,
                alpha=0.25,
                linewidth=0,
                label=f"{self.vectors} random directions, mean +/- deviation",
            )
            draw_curve(axes, self.distances, self.ones, label="the direction (1, 1, .., 1)")
            axes.set_ylabel("score of two equal unit vectors")
            axes.set_title(f"Rotary encoding, {self.dim} dimensions a head, base {whole(self.base)}")
            axes.legend()
            return figure

    def _wavelength_table(self) -> Table:
        table = new_table("pair", "turns once in (tokens)", f"turns in {self.length} tokens")
        for pair in evenly(len(self.wavelengths), at_most=7):
            wavelength = self.wavelengths[pair]
            table.add_row(str(pair), f"{wavelength:,.2f}", f"{self.length / wavelength:,.3f}")
        return table

    def _score_table(self) -> Table:
        table = new_table("distance k", "along ones", "random", "deviation", "", left=[4])
        lowest, highest = min(self.ones), max(self.ones)
        for i in by_ratio(len(self.distances), at_most=11):
            figures = (self.ones[i], self.random[i], self.deviations[i])
            bars = bar(self.ones[i], lowest, highest, width=28)
            table.add_row(str(self.distances[i]), *(f"{figure:.3f}" for figure in figures), bars)
        return table


def examine_rotary(length: int, dim: int, base: float) -> TurningReport:
    """Turn equal vectors with the layer's own code and read their scores, in float64."""
    if dim % 2:
        raise HeadwiseError(
            who="encoding",
            what="dim",
            expected="even for rotary",
            got=str(dim),
            why="Dimensions turn in pairs",
            do=f"Use {dim + 1}",
        )
    rotary = Rotary(base)
    distances = distances_below(length, most=512)
    generator = torch.Generator().manual_seed(_SEED)
    directions = torch.randn(_VECTORS, dim, generator=generator, dtype=torch.float64)
    directions = directions / directions.norm(dim=-1, keepdim=True)
    ones = torch.full((1, dim), dim**-0.5, dtype=torch.float64)
    of_random = _scores_with_itself(rotary, directions, distances)
    return TurningReport(
        name="rotary",
        length=length,
        dim=dim,
        base=float(base),
        vectors=_VECTORS,
        wavelengths=tuple((2 * math.pi / frequencies(dim, base)).tolist()),
        distances=distances,
        ones=tuple(_scores_with_itself(rotary, ones, distances)[0].tolist()),
        random=tuple(of_random.mean(0).tolist()),
        deviations=tuple(of_random.std(0).tolist()),
        shift_changes={shift: _change_by_shift(rotary, directions, length, shift) for shift in SHIFTS},
    )


def _scores_with_itself(rotary: Rotary, x: Tensor, distances: tuple[int, ...]) -> Tensor:
    """The score of each vector at position 0 with itself at each distance: ``[vectors, distances]``."""
    at_each_distance = x[:, None, None, :].expand(-1, 1, len(distances), -1)
    turned = rotary.turn(at_each_distance, torch.tensor(distances))[:, 0]
    return torch.einsum("vd,vkd->vk", x, turned)


def _change_by_shift(rotary: Rotary, directions: Tensor, length: int, shift: int) -> float:
    """The largest change in a score when each query and key, random and unequal, moves by ``shift``."""
    q, k = directions[None, None, : _VECTORS // 2], directions[None, None, _VECTORS // 2 :]
    at_queries = torch.arange(q.shape[2]) % length
    at_keys = at_queries.flip(0)

    def scores(added: int) -> Tensor:
        turned_q, turned_k = rotary.rotate(q, k, at_queries + added, at_keys + added)
        return turned_q @ turned_k.transpose(-1, -2)

    return float((scores(shift) - scores(0)).abs().max())
