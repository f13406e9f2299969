"""The picture of an inspection: a heat map of all heads for each statistic, the chosen one first."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from headwise.core.figures import RISING, new_figure
from headwise.experiments.inside.inspection import UNITS, Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3


def draw(result: Inspection) -> Figure:
    """A panel for each statistic that says something."""
    chosen = result.statistic
    names = [chosen, *(name for name in UNITS if name != chosen and _is_worth_a_panel(result, name))]
    down = ceil(len(names) / _ACROSS)
    height = min(6.0, 1.6 + 0.1 * len(result.layers))
    with new_figure(11.0, 0.6 + down * height, who="inspect") as figure:
        figure.suptitle(
            f"{result.model}: {result.tokens:,} tokens, {result.rows}", ha="left", x=0.01, fontsize=10
        )
        panels = figure.subplots(down, _ACROSS, squeeze=False).flatten()
        for axes, name in zip(panels, names, strict=False):
            _draw_panel(axes, result, name)
        for axes in panels[len(names) :]:
            axes.set_axis_off()
        return figure


def _is_worth_a_panel(result: Inspection, statistic: str) -> bool:
    """Not what no row has, and not the next token in a causal model."""
    highest = result.highest(statistic, 1)
    return bool(highest) and bool(highest[0].mean(statistic))


def _draw_panel(axes: Axes, result: Inspection, statistic: str) -> None:
    rows = result.table(statistic)
    grid = np.full((len(rows), max(map(len, rows), default=1)), np.nan)
    for line, row in zip(grid, rows, strict=True):
        line[: len(row)] = [np.nan if mean is None else mean for mean in row]
    image = axes.imshow(grid, cmap=RISING, aspect="auto", interpolation="nearest")
    axes.set_title(f"{statistic}" + (" (chosen)" if statistic == result.statistic else ""))
    axes.set_xticks(range(0, grid.shape[1], max(1, grid.shape[1] // 12)))
    axes.set_yticks(range(0, grid.shape[0], max(1, grid.shape[0] // 10)))
    axes.set(xlabel="query head", ylabel="layer")
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(image, ax=axes, label=UNITS[statistic])
