"""The pieces of the experiments' pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headwise.core.figures import BLUE, DIVERGING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def side_by_side(figure: Figure, widths: tuple[float, float]) -> tuple[Axes, Axes]:
    """Two panels of these relative widths, with air between them."""
    # the labels of one panel would touch the other
    figure.set_layout_engine("constrained", wspace=0.06)
    left, right = figure.subplots(1, 2, width_ratios=widths)
    return left, right


def draw_heat_map(axes: Axes, table: Sequence[Sequence[float]], title: str) -> None:
    """Position down, dimension across, red below zero and blue above."""
    values = np.asarray(table)
    largest = float(np.abs(values).max()) or 1.0
    image = axes.imshow(
        values, cmap=DIVERGING, vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    axes.set(title=title, xlabel="embedding dimension", ylabel="position in the sentence (token)")
    axes.locator_params(integer=True)
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(image, ax=axes, label="value of the encoding", pad=0.02)


def draw_curve(axes: Axes, distances: Sequence[int], values: Sequence[float], *, label: str = "") -> None:
    """One value for each distance, with a line at zero."""
    axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    few = len(distances) <= 60
    axes.plot(distances, values, color=BLUE, linewidth=1.5, marker="." if few else None, label=label)
    axes.set_xlabel("distance k (tokens)")
    axes.set_xlim(left=min(-0.02 * distances[-1], -0.5))
