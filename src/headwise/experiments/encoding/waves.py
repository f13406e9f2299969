"""The sinusoidal encoding: its table, its wavelengths, and the law that makes distances readable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.core import HeadwiseError
from headwise.core.figures import new_figure
from headwise.experiments.encoding.distances import distances_below
from headwise.experiments.pictures import draw_curve, draw_heat_map, side_by_side
from headwise.experiments.result import Result
from headwise.experiments.text import bar, by_ratio, evenly, new_table, page, paragraph, whole
from headwise.layers import Sinusoidal
from headwise.layers.positions.angles import frequencies

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BaseEffect:
    """The fastest and the slowest wave, in tokens a turn, that a base gives."""

    base: float
    fastest: float
    slowest: float


@dataclass(frozen=True)
class WavesReport(Result):
    """``products[i]`` is the mean of PE(p) . PE(p + k) over ``length`` positions p, at k = ``distances[i]``.

    ``spreads[i]`` is its largest minus its smallest value over those positions; ``law_error`` the largest
    |PE(p + k) - R_k PE(p)| over all positions, offsets and paired dimensions, in float64.
    """

    name: str
    length: int
    dim: int
    base: float
    table: tuple[tuple[float, ...], ...]
    wavelengths: tuple[float, ...]
    bases: tuple[BaseEffect, ...]
    law_offsets: int
    law_error: float
    distances: tuple[int, ...]
    products: tuple[float, ...]
    spreads: tuple[float, ...]

    def __rich__(self) -> RenderableType:
        slow = sum(wavelength > self.length for wavelength in self.wavelengths)
        return page(
            f"sinusoidal encoding: length {self.length}, dim {self.dim}, base {whole(self.base)}",
            paragraph(
                "Added to the embeddings: PE(p, 2i) = sin(p / base^(2i/dim)), PE(p, 2i+1) = cos of the same.",
                f"Waves longer than the sentence: {slow} of {len(self.wavelengths)}.",
            ),
            self._wavelength_table(),
            paragraph(self._about_the_base()),
            self._base_table(),
            paragraph(
                "The law PE(p + k) = R_k PE(p): moving by k tokens is one fixed rotation,",
                "wherever you stand.",
                f"Largest error from {self.length} x {self.law_offsets} positions and offsets:"
                f" {self.law_error:.1e} (float64).{self._about_the_odd_one()}",
            ),
            paragraph(self._about_products()),
            self._product_table(),
        )

    def figure(self) -> Figure:
        with new_figure(10.5, 4.4, who="encoding") as figure:
            left, right = side_by_side(figure, (2.1, 1.0))
            draw_heat_map(left, self.table, f"Sinusoidal encoding, base {whole(self.base)}")
            draw_curve(right, self.distances, self.products)
            right.set(title="How alike two positions are", ylabel="dot product PE(p) . PE(p + k)")
            return figure

    def _wavelength_table(self) -> Table:
        table = new_table("pair", "dimensions", "wavelength (tokens)", f"turns in {self.length} tokens")
        for pair in evenly(len(self.wavelengths), at_most=8):
            last = min(2 * pair + 1, self.dim - 1)
            dimensions = f"{2 * pair}" if last == 2 * pair else f"{2 * pair}, {last}"
            wavelength = self.wavelengths[pair]
            table.add_row(str(pair), dimensions, f"{wavelength:,.2f}", f"{self.length / wavelength:,.3f}")
        return table

    def _about_the_base(self) -> str:
        if len(self.wavelengths) == 1:
            return "With a single wave the base changes nothing: it is 2 pi = 6.28 tokens long."
        return "The fastest wave is 2 pi = 6.28 tokens long whatever the base. The base sets the slowest:"

    def _base_table(self) -> Table:
        table = new_table("base", "fastest wave (tokens)", "slowest wave (tokens)")
        for effect in self.bases:
            here = "bold" if effect.base == self.base else None
            table.add_row(whole(effect.base), f"{effect.fastest:,.2f}", f"{effect.slowest:,.2f}", style=here)
        return table

    def _about_the_odd_one(self) -> str:
        if self.dim % 2 == 0:
            return ""
        return f" Dimension {self.dim - 1} is a sine without its cosine and stands outside the law."

    def _about_products(self) -> str:
        if self.dim % 2:
            return "So the dot product depends on the distance k and, by that lone sine, on the position p:"
        return "So the dot product PE(p) . PE(p + k) depends on the distance k alone, not on the position p:"

    def _product_table(self) -> Table:
        table = new_table("distance k", "PE(p) . PE(p+k)", "spread over p", "", left=[3])
        lowest, highest = min(self.products), max(self.products)
        for i in by_ratio(len(self.distances), at_most=11):
            product = self.products[i]
            bars = bar(product, lowest, highest, width=30)
            table.add_row(str(self.distances[i]), f"{product:.2f}", f"{self.spreads[i]:.0e}", bars)
        return table


class _Law(NamedTuple):
    error: float
    products: tuple[float, ...]
    spreads: tuple[float, ...]


def examine_sinusoidal(length: int, dim: int, base: float) -> WavesReport:
    """Measure the layer's own table against rotations built here from the published formula."""
    if dim < 2:
        raise HeadwiseError(
            who="encoding",
            what="dim",
            expected="at least 2 for sinusoidal",
            got=str(dim),
            why="A wave needs a sine and a cosine",
            do="Use an even number, such as 128",
        )
    offsets = distances_below(max(length, 2))  # a single token has a next one too
    table = Sinusoidal(base).table(torch.arange(2 * length), dim, torch.float64).numpy()
    law = _measure(table, length, base, offsets)
    waves = 2 * math.pi / frequencies(dim, base)
    return WavesReport(
        name="sinusoidal",
        length=length,
        dim=dim,
        base=float(base),
        table=tuple(tuple(row) for row in table[:length].tolist()),
        wavelengths=tuple(waves.tolist()),
        bases=_base_effects(dim, base),
        law_offsets=len(offsets) - 1,
        law_error=law.error,
        distances=offsets,
        products=law.products,
        spreads=law.spreads,
    )


def _measure(table: Array, length: int, base: float, offsets: tuple[int, ...]) -> _Law:
    here = table[:length]
    errors, products, spreads = [], [], []
    for k in offsets:
        there = table[k : k + length]
        errors.append(_law_error(here, there, k, base))
        product = (here * there).sum(-1)
        products.append(float(product.mean()))
        spreads.append(float(product.max() - product.min()))
    return _Law(max(errors), tuple(products), tuple(spreads))


def _law_error(here: Array, there: Array, k: int, base: float) -> float:
    """The largest |PE(p + k) - R_k PE(p)|, where R_k turns pair i by ``k / base^(2i / dim)``."""
    dim = here.shape[-1]
    paired = dim - dim % 2
    angle = k / base ** (np.arange(0, paired, 2) / dim)
    # (sin a, cos a) -> (sin(a + b), cos(a + b)) is [[cos b, sin b], [-sin b, cos b]]
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    moved = np.einsum("rcp,npc->npr", rotation, here[:, :paired].reshape(len(here), -1, 2))
    return float(np.abs(moved.reshape(len(here), paired) - there[:, :paired]).max())


def _base_effects(dim: int, base: float) -> tuple[BaseEffect, ...]:
    bases = sorted({100.0, 10_000.0, 1_000_000.0, float(base)})
    waves = {b: 2 * math.pi / frequencies(dim, b) for b in bases}
    return tuple(BaseEffect(b, float(waves[b][0]), float(waves[b][-1])) for b in bases)
