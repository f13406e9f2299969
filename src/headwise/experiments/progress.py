"""A progress bar for what may take long: on standard error, gone when done, absent where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, track

Item = TypeVar("Item")


def rounds(count: int, doing: str) -> Iterator[int]:
    """0 to ``count - 1``, with a bar that says what is being done if standard error is a terminal.

    >>> list(rounds(3, "timing"))
    [0, 1, 2]
    """
    yield from each(range(count), doing)


def each(items: Sequence[Item], doing: str) -> Iterable[Item]:
    """The items, one by one, with the same bar.

    >>> list(each("ab", "reading"))
    ['a', 'b']
    """
    console = Console(stderr=True)
    yield from track(
        items, description=doing, console=console, transient=True, disable=not console.is_terminal
    )


@contextmanager
def counting(doing: str, count: Callable[[], int], total: int | None) -> Iterator[None]:
    """A block with a bar that asks, again and again, how much is done; ``total`` None if nobody knows of how
    much.

    >>> with counting("layers read", lambda: 3, total=4):
    ...     pass
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    bar = _Counting(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.count = count
    bar.add_task(doing, total=total)
    with bar:
        yield


class _Counting(Progress):
    """Asks whenever it draws itself, so the work need not tell."""

    count: Callable[[], int] = staticmethod(lambda: 0)

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            self.update(task.id, completed=self.count())
        yield from super().get_renderables()
