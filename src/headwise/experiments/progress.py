"""A progress bar for what may take long: on standard error, gone when done, absent where nobody watches."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.progress import track


def rounds(count: int, doing: str) -> Iterator[int]:
    """0 to ``count - 1``, with a bar that says what is being done if standard error is a terminal.

    >>> list(rounds(3, "timing"))
    [0, 1, 2]
    """
    console = Console(stderr=True)
    yield from track(
        range(count), description=doing, console=console, transient=True, disable=not console.is_terminal
    )
