"""Encodings that add a table without a law: one learned vector for each position, or the raw number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.core.figures import new_figure
from headwise.experiments.encoding.distances import distances_below
from headwise.experiments.pictures import draw_curve, draw_heat_map, side_by_side
from headwise.experiments.result import Result
from headwise.experiments.text import by_ratio, evenly, new_table, page, paragraph
from headwise.layers import PositionalEncoding

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table


@dataclass(frozen=True)
class TableReport(Result):
    """``norms`` holds one length for each row; ``word_norm`` is that of a word vector of unit variance.

    ``products[i]`` is the mean of PE(p) . PE(p + k) over the positions p that have a row ``k =
    distances[i]`` further on; ``lowest`` and ``highest`` are its extremes over those positions.
    """

    name: str
    length: int
    dim: int
    table: tuple[tuple[float, ...], ...]
    word_norm: float
    norms: tuple[float, ...]
    distances: tuple[int, ...]
    products: tuple[float, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    def __rich__(self) -> RenderableType:
        what, norms, products = _WORDS[self.name]
        return page(
            f"{self.name} encoding: length {self.length}, dim {self.dim}",
            paragraph(what),
            paragraph(
                f"A word vector of unit variance has norm sqrt({self.dim}) = {self.word_norm:.2f}.", norms
            ),
            self._norm_table(),
            paragraph(products),
            self._product_table(),
        )

    def figure(self) -> Figure:
        with new_figure(10.5, 4.4, who="encoding") as figure:
            left, right = side_by_side(figure, (2.1, 1.0))
            untrained = " (untrained, random)" if self.name == "learned" else ""
            draw_heat_map(left, self.table, f"{self.name.capitalize()} encoding{untrained}")
            right.fill_between(
                self.distances, self.lowest, self.highest, color="0.85", label="lowest to highest over p"
            )
            draw_curve(right, self.distances, self.products, label="mean over p")
            right.set(title="The distance alone decides nothing", ylabel="dot product PE(p) . PE(p + k)")
            right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            right.legend()
            return figure

    def _norm_table(self) -> Table:
        table = new_table("position p", "norm of PE(p)", "times a word's norm")
        for p in evenly(self.length, at_most=8):
            table.add_row(str(p), f"{self.norms[p]:,.2f}", f"{self.norms[p] / self.word_norm:,.2f}")
        return table

    def _product_table(self) -> Table:
        table = new_table("distance k", "PE(p) . PE(p+k), mean", "lowest over p", "highest over p")
        places = 1 if max(self.highest) < 1000 else 0
        for i in by_ratio(len(self.distances), at_most=10):
            figures = (self.products[i], self.lowest[i], self.highest[i])
            table.add_row(str(self.distances[i]), *(f"{figure:,.{places}f}" for figure in figures))
        return table


_WORDS = {
    "learned": (
        "Added to the embeddings: one vector for each position, and none beyond the last. Here the table is"
        " not trained: it is drawn at random, with deviation 1.",
        "A random row is about as long:",
        "Nothing ties PE(p + k) to PE(p): each row is a parameter of its own, and training has to teach each"
        " distance at each position. So the dot product scatters around 0 and says nothing about distance:",
    ),
    "integers": (
        "Added to the embeddings: the number p itself, in every dimension. Nobody does that, and this is why:"
        " the numbers drown the words.",
        "The position is p times as long:",
        "PE(p + k) is PE(p) plus k in every dimension, not a rotation of it: the dot product grows with both"
        " positions, so the same distance looks different at each place:",
    ),
}


def examine_table(name: str, position: PositionalEncoding, length: int, dim: int) -> TableReport:
    """Read the table off the layer: what it adds to embeddings of zero."""
    zeros = torch.zeros(1, length, dim, dtype=torch.float64)
    with torch.no_grad():
        table = position.embed(zeros, torch.arange(length))[0]
    distances = distances_below(length)
    products = [_products(table, k) for k in distances]
    return TableReport(
        name=name,
        length=length,
        dim=dim,
        table=tuple(tuple(row) for row in table.tolist()),
        word_norm=math.sqrt(dim),
        norms=tuple(table.norm(dim=-1).tolist()),
        distances=distances,
        products=tuple(float(product.mean()) for product in products),
        lowest=tuple(float(product.min()) for product in products),
        highest=tuple(float(product.max()) for product in products),
    )


def _products(table: Tensor, k: int) -> Tensor:
    return (table[: len(table) - k] * table[k:]).sum(-1)
