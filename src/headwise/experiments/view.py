"""The look of results in a terminal: plain at 80 columns, on light and on dark."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

Heading = str | tuple[str, str]


def table(first: Heading, *others: Heading) -> Table:
    """An empty table: a column of names, then columns of numbers. A pair of headings takes two lines.

    >>> numbers = table("word", ("weight", "in A"))
    >>> numbers.add_row("charge", "0.147")
    >>> numbers.row_count
    1
    """
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    made.add_column(_heading(first), overflow="fold")
    for heading in others:
        made.add_column(_heading(heading), justify="right", no_wrap=True)
    return made


def verdict(text: str) -> Text:
    """The sentence a table amounts to.

    >>> str(verdict("Attention is order-blind."))
    'Attention is order-blind.'
    """
    return Text(text, style="bold")


def sentences(a: str, b: str) -> Text:
    """Two sentences under the letters the tables call them by.

    >>> print(sentences("cat bites dog", "dog bites cat"))
    A  cat bites dog
    B  dog bites cat
    """
    return Text("\n").join((Text.assemble(("A  ", "bold"), a), Text.assemble(("B  ", "bold"), b)))


def _heading(heading: Heading) -> Text:
    return Text(heading if isinstance(heading, str) else "\n".join(heading))
