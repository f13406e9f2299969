"""How a window looks in a terminal: a heat map with token text, the strongest pairs, entropies."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from headwise.experiments.inside.heat import SHADES, colour, has_colours, shade, square_root
from headwise.experiments.inside.pieces import quoted, visible
from headwise.experiments.inside.window import Window
from headwise.experiments.text import new_table, page, paragraph

_LABEL = 13  # columns of a query's token
_CELLS = 48
_ROWS = 48
_TALL = 8  # letters of a key's token, read downwards


def view(result: Window) -> Group:
    """The whole page."""
    kv = f", key/value head {result.kv_head}" if result.kv_heads < result.heads else ""
    largest = max(map(max, result.weights))
    legend = f"Shades {SHADES!r}, or colours from dark to light, from 0 to {largest:.3g}, the largest weight"
    blocks: list[RenderableType] = [
        paragraph(
            f"{result.model}, layer {result.layer} is {result.module or 'the model'}.", *_about(result)
        ),
        HeatMap(result, largest),
        paragraph(
            f"{legend} here, by its square root. H: entropy of the whole row in nats.",
            "in: how much of its attention falls into this window.",
        ),
    ]
    if result.strongest:
        blocks += [paragraph(_title_of_pairs(result)), _strongest(result)]
    queries = f"{result.first_query}:{result.first_query + len(result.weights)}"
    keys = f"{result.first_key}:{result.first_key + len(result.weights[0])}"
    return page(f"Head {result.layer}.{result.head}{kv}: queries {queries}, keys {keys}", *blocks)


def _about(result: Window) -> list[str]:
    many = "" if result.text == 0 else f" {result.text}"
    parts = [f"Text{many} of {result.length:,} tokens, read exactly. Queries down, keys across."]
    rows, columns = _step(len(result.weights), _ROWS), _step(len(result.weights[0]), _CELLS)
    if rows > 1 or columns > 1:
        parts.append(f"Each cell is the largest of {rows} x {columns} weights; --json has them all.")
    if not result.query_tokens:
        parts.append("The recording has no token text.")
    return parts


def _step(count: int, most: int) -> int:
    return ceil(count / most)


class HeatMap:
    """A letter, or a square of colour, for each weight; the largest of several where there are too many."""

    def __init__(self, result: Window, largest: float) -> None:
        self.result = result
        self.down = _step(len(result.weights), _ROWS)
        self.across = _step(len(result.weights[0]), _CELLS)
        cells = _largest_of(np.asarray(result.weights), self.down, self.across) / (largest or 1.0)
        self.levels = [[square_root(level) for level in row] for row in cells.tolist()]
        self.wide = 2 if 2 * len(self.levels[0]) <= _CELLS else 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        coloured = has_colours(console)
        yield from self._headings()
        for number, row in enumerate(self.levels):
            line = Text(self._label(number), no_wrap=True, overflow="ignore")
            for level in row:
                letters = " " if coloured else shade(level)
                line.append(letters * self.wide, style=colour(level) if coloured else "")
            some = slice(number * self.down, (number + 1) * self.down)
            entropy = float(np.mean(self.result.entropy[some]))
            inside = float(np.mean(self.result.inside[some]))
            line.append(f" {entropy:5.2f} {inside:4.2f}")
            yield line

    def _headings(self) -> RenderResult:
        blank = " " * (_LABEL + 7)
        width = len(self.levels[0]) * self.wide
        if self.across == 1 and self.result.key_tokens:
            names = [visible(token.strip(" ") or token, _TALL) for token in self.result.key_tokens]
            tall = max(map(len, names))
            for line in range(tall):
                letters = (name.rjust(tall)[line] for name in names)
                yield Text(blank + "".join(f"{letter:<{self.wide}}" for letter in letters).rstrip())
        yield Text(f"{blank}{self._ruler(width):<{width}}     H   in", style="dim")

    def _ruler(self, width: int) -> str:
        """Places of keys, each where its column starts, as far apart as they need."""
        ruler, free = [" "] * width, 0
        for cell in range(len(self.levels[0])):
            name = str(self.result.first_key + cell * self.across)
            start = cell * self.wide
            if cell % 4 == 0 and start >= free and start + len(name) <= width:
                ruler[start : start + len(name)] = name
                free = start + len(name) + 2
        return "".join(ruler)

    def _label(self, number: int) -> str:
        place = number * self.down
        token = quoted(self.result.query_tokens[place], _LABEL) if self.result.query_tokens else ""
        return f"{self.result.first_query + place:>5} {token:<{_LABEL}} "


def _largest_of(weights: NDArray[np.float64], down: int, across: int) -> NDArray[np.float64]:
    rows, columns = weights.shape
    padded = np.pad(weights, ((0, -rows % down), (0, -columns % across)))
    blocks = padded.reshape(-(-rows // down), down, -(-columns // across), across)
    return np.asarray(blocks.max(axis=(1, 3)))


def _title_of_pairs(result: Window) -> str:
    if result.left_out is None:
        return "The strongest pairs:"
    column = result.left_out - result.first_key
    name = f" {quoted(result.key_tokens[column], 20)}" if result.key_tokens else ""
    return (
        f"The strongest pairs without key {result.left_out}{name}, which gets more than half of all "
        "attention here:"
    )


def _strongest(result: Window) -> Table:
    table = new_table("query", "", "key", "", "weight", left=[1, 3])
    for pair in result.strongest:
        tokens = [Text(quoted(token, 20)) if token else "" for token in (pair.query_token, pair.key_token)]
        table.add_row(f"{pair.query:,}", tokens[0], f"{pair.key:,}", tokens[1], f"{pair.weight:.3f}")
    return table
