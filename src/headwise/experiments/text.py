"""The plain pieces that results are written with: bold and dim only, ASCII only, at home in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from headwise.experiments.result import WIDTH


def page(heading: str, *blocks: RenderableType) -> Group:
    """A heading in bold, then paragraphs and tables with an empty line between them.

    >>> from rich.console import Console
    >>> Console(width=20).print(page("Heads", paragraph("Two heads", "see more.")))
    Heads
    <BLANKLINE>
    Two heads see more.
    """
    rows: list[RenderableType] = [Text(heading, style="bold")]
    for block in blocks:
        rows += [Text(""), block]
    return Group(*rows)


def paragraph(*parts: str) -> Text:
    """Parts of sentences, joined; they wrap at the width of the page.

    >>> paragraph("One.", "Two.").plain
    'One. Two.'
    """
    return Text(" ".join(parts))


class _Uncut(Table):
    """A table as wide as the page even where the terminal is narrower: a cut number says nothing."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, options.update(max_width=max(options.max_width, WIDTH)))


def new_table(*columns: str, left: Sequence[int] = ()) -> Table:
    """An empty table with these headings: to the right, and to the left for the columns named in ``left``.

    >>> [column.justify for column in new_table("word", "weight", left=[0]).columns]
    ['left', 'right']
    """
    table = _Uncut(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in left else "right", no_wrap=True)
    return table


def bar(value: float, lowest: float, highest: float, width: int) -> str:
    """A bar from 0 to the value, on an axis that reaches from ``lowest`` (or 0) to ``highest`` (or 0).

    >>> bar(2.0, -1.0, 3.0, width=8), bar(-1.0, -1.0, 3.0, width=8)
    ('  ####', '##')
    """
    lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    unit = width / (highest - lowest or 1.0)
    zero, end = round(-lowest * unit), round((value - lowest) * unit)
    return " " * min(zero, end) + "#" * abs(end - zero)


def evenly(count: int, at_most: int) -> list[int]:
    """Up to ``at_most`` of the numbers below ``count``, evenly spaced, both ends included.

    >>> evenly(64, at_most=4)
    [0, 21, 42, 63]
    """
    return [int(number) for number in np.unique(np.linspace(0, count - 1, min(count, at_most)).round())]


def by_ratio(count: int, at_most: int) -> list[int]:
    """Like ``evenly``, but each number is a multiple of the one before: close together near 0.

    >>> by_ratio(50, at_most=8)
    [0, 1, 2, 4, 7, 13, 26, 49]
    """
    if count == 1:
        return [0]
    steps = np.geomspace(1, count - 1, min(count, at_most) - 1).round()
    return [0, *(int(number) for number in np.unique(steps))]


def whole(number: float) -> str:
    """A number without decimals if it has none.

    >>> whole(10000.0), whole(2.5)
    ('10,000', '2.5')
    """
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e12 else f"{number:g}"
