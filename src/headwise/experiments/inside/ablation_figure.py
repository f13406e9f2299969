"""The picture of an ablation: the chosen heads together and alone, beside the random draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.core.figures import BLUE, GREY, ORANGE, new_figure
from headwise.experiments.inside.ablation import Ablation, Effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = 30


def draw(result: Ablation) -> Figure:
    """A line for each removal, the largest at the top, and one for all random draws."""
    alone = sorted(result.alone, key=lambda effect: -effect.size)[:_SHOWN] if len(result.alone) > 1 else []
    rows = 1 + len(alone) + bool(result.random)
    with new_figure(8.0, 1.5 + 0.28 * rows, who="ablate") as figure:
        axes = figure.add_subplot()
        axes.axvline(0.0, color="0.8", linewidth=0.8, zorder=0)
        count = len(result.together.heads)
        named = result.together.heads[0] if count == 1 else f"all {count} together"
        names = [named, *(effect.heads[0] for effect in alone)]
        _dots(axes, 0, [result.together], ORANGE, "s")
        for place, effect in enumerate(alone, start=1):
            _dots(axes, place, [effect], BLUE, "o")
        if result.random:
            names.append(f"random heads ({len(result.random)} draws)")
            _dots(axes, rows - 1, result.random, GREY, "d")
        axes.set_yticks(range(rows), names)
        axes.set_ylim(rows - 0.5, -0.5)
        if result.loss is not None:
            axes.set_xlabel(f"change of the loss from {result.loss:.3f} (nats per token)")
        else:
            axes.set_xlabel("change of the output (relative to its size)")
        axes.set_ylabel("removed heads")
        axes.set_title(f"{result.model}, {result.tokens:,} tokens, heads replaced by {result.to}")
        return figure


def _dots(axes: Axes, row: int, effects: list[Effect], colour: str, marker: str) -> None:
    sizes = [effect.size for effect in effects]
    if len(sizes) == 1:
        axes.plot([0.0, sizes[0]], [row, row], color=colour, linewidth=1)
    axes.plot(sizes, [row] * len(sizes), marker=marker, color=colour, linestyle="none")
