"""Does every declared option do something?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwise.check.asking import MisbehavedError, ask, checked
from headwise.check.comparing import distance
from headwise.check.inputs import Arguments, arguments
from headwise.check.report import Report, failed, not_checked
from headwise.check.rounding import same_kernels

Option = tuple[Callable[..., Any], Callable[..., Any]]
"""The same thing without an option and with it."""

_CAUSE = (
    "Usually an option that is read and not handed on, or computed and not returned: follow its value to the "
    "line that uses it, on the path that runs"
)


@checked("effect", do="Pass callables that take these inputs without the option")
def effect(options: Mapping[str, Option], inputs: Arguments, *, length: int = 33) -> Report:
    """Every option changes the output; refusing an option, by an error, passes too.

    ``options`` names pairs of callables: without the option, and with it. Choose inputs on which the option
    must matter. Unlike elsewhere the figure must exceed the tolerance: it is the smallest change that an
    option makes, and rounding alone may make the other.

    >>> from headwise.check import Vectors, effect
    >>> effect({"causal": (lambda x: x.cumsum(1), lambda x: x.cumsum(1))}, Vectors(4)).failing
    'causal changes nothing'
    """
    if not options:
        return not_checked("effect", why="no option was named", do="Pass pairs of callables by name")
    given = arguments(inputs, length)
    changes: list[tuple[float, float, str]] = []
    refused: list[str] = []
    for name, (without, with_it) in options.items():
        before = ask(without, *given, name=f"without {name}, it")
        try:
            after = ask(with_it, *given)
        except MisbehavedError:
            refused.append(name)
            continue
        change = float(distance(before, after).max()) if before.shape == after.shape else float("inf")
        changes.append((change, same_kernels(before) if before.is_floating_point() else 0.0, name))
    tried = ", ".join(options) + (f", of which refused: {', '.join(refused)}" if refused else "")
    if not changes:
        return Report("effect", "holds", tried=tried)
    change, limit, _ = min(changes)
    idle = [name for change, limit, name in changes if not change > limit]
    if not idle:
        return Report("effect", "holds", change, limit, tried=tried)
    failing = f"{' and '.join(idle)} {'changes' if len(idle) == 1 else 'change'} nothing"
    return failed("effect", change, limit, tried=tried, failing=failing, cause=_CAUSE)
