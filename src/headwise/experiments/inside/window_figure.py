"""The picture of a window: its weights as a heat map with token text on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.core.figures import RISING, new_figure
from headwise.experiments.inside.pieces import visible
from headwise.experiments.inside.window import Window

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_MOST_NAMES = 96
_INCH_PER_TOKEN = 0.135


def draw(result: Window) -> Figure:
    """Queries down, keys across."""
    rows, columns = len(result.weights), len(result.weights[0])
    width = 3.2 + _INCH_PER_TOKEN * min(max(columns, 24), _MOST_NAMES)
    height = 2.2 + _INCH_PER_TOKEN * min(max(rows, 16), _MOST_NAMES)
    with new_figure(width, height, who="zoom") as figure:
        axes = figure.add_subplot()
        image = axes.imshow(result.weights, cmap=RISING, vmin=0, aspect="auto", interpolation="nearest")
        kv = f" (key/value head {result.kv_head})" if result.kv_heads < result.heads else ""
        axes.set_title(f"{result.model}, head {result.layer}.{result.head}{kv}")
        axes.set(xlabel="key (token)", ylabel="query (token)")
        _name(axes.xaxis, result.first_key, columns, result.key_tokens, turned=True)
        _name(axes.yaxis, result.first_query, rows, result.query_tokens, turned=False)
        figure.colorbar(image, ax=axes, label="attention weight (share of the row)", pad=0.02)
        return figure


def _name(axis: Axis, first: int, count: int, tokens: list[str], *, turned: bool) -> None:
    """Every place by its number and token; numbers alone, and fewer, where there is no room."""
    if tokens and count <= _MOST_NAMES:
        labels = [f"{visible(token, 14)}  {first + place}" for place, token in enumerate(tokens)]
        axis.set_ticks(range(count))
        axis.set_ticklabels(labels, fontsize=7, rotation=90 if turned else 0, parse_math=False)
        return
    places = range(0, count, max(1, count // 12))
    axis.set_ticks(list(places), [str(first + place) for place in places])
