"""No encoding: nothing is added, nothing turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.core.figures import new_figure
from headwise.experiments.encoding.distances import distances_below
from headwise.experiments.pictures import draw_curve
from headwise.experiments.result import Result
from headwise.experiments.text import page, paragraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True)
class NothingReport(Result):
    """The report on no encoding; it holds the length only."""

    name: str
    length: int

    def __rich__(self) -> RenderableType:
        return page(
            "no encoding",
            paragraph(
                "Nothing is added to the embeddings or to the scores, and no query or key turns.",
                "A score depends on the two words alone, so attention is order-blind:",
                "permute the words, and the outputs permute with them.",
                "Only a causal mask lets order in: a word sees those before it.",
            ),
        )

    def figure(self) -> Figure:
        with new_figure(6.0, 3.0, who="encoding") as figure:
            axes = figure.subplots()
            distances = distances_below(self.length)
            draw_curve(axes, distances, [0.0] * len(distances))
            axes.set(
                title="No encoding: distance changes no score", ylabel="change of the score", ylim=(-1, 1)
            )
            return figure
