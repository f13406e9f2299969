"""Puts together what compiled code did: what was traced of it, and what ran in Python nevertheless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headwise.look.calls.trail import inside


def late_calls(
    traced: Sequence[tuple[Any, ...]], held: Sequence[tuple[Any, ...]], outer: str
) -> Iterator[tuple[Any, ...]]:
    """Path, arguments, keywords and output of each call inside the module ``outer``; none stands for flex.

    Traced calls without keywords, an empty dictionary not counted, are pieces of attention and left out.

    >>> list(late_calls([("a.b", (1,), {}, "x")], [("a", (1,), {}, "y")], "a"))
    [('a.b', (1,), {}, 'x'), ('a', (1,), {}, 'y')]
    """
    # a backend may run in Python what was traced
    known = {id(output) for *_, output in traced} | {id(None) for _, args, *_ in traced if args is None}
    for path, args, kwargs, output in traced:
        # code that several modules share was traced in the first of them
        if args is None or kwargs is not None:
            yield path if path == outer or inside(path, outer) else outer, args, kwargs, output
    for path, args, kwargs, output in held:
        if (id(None) if args is None else id(output)) not in known:
            yield path, args, kwargs, output
