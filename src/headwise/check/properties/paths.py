"""Do all ways to compute the same thing agree?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from headwise.check.asking import MisbehavedError, ask
from headwise.check.backward import compared
from headwise.check.comparing import distance, place
from headwise.check.inputs import Arguments, arguments
from headwise.check.report import Report, failed, judged, not_checked
from headwise.check.rounding import other_kernels

_CAUSE = (
    "Usually one path drops or misreads an argument (a mask, the causal flag, a scale), or computes a step "
    "in lower precision; backward, a tensor that is detached, or a backward pass of its own that forgets "
    "what the forward pass does: call both with that input and turn the options off one by one"
)


def paths(
    ways: Mapping[str, Callable[..., Any]],
    inputs: Arguments,
    *,
    lengths: tuple[int, ...] = (1, 2, 3, 8, 33),
    depth: int = 1,
    parameters: Sequence[Tensor] = (),
) -> Report:
    """All ways to compute one thing are equal: eager, fused, compiled, exported, with weights and without.

    A way that raises where another answers is a failure. The shortest length that fails is reported, with the
    pair that is furthest apart and the place. Ways that pass gradients must agree on them too, by the inputs
    and by the ``parameters`` that they share; which ones do is told.

    >>> from headwise.check import Vectors, paths
    >>> ways = {"plain": lambda x: x.cumsum(1), "reversed": lambda x: x.flip(1).cumsum(1).flip(1)}
    >>> print(paths(ways, Vectors(4)).failing)  # doctest: +ELLIPSIS
    at length 2, plain and reversed are ... apart at [...]
    """
    if len(ways) < 2:
        return not_checked("paths", why=f"there is {len(ways)} way", do="Pass two ways or more, by name")
    tried = f"{', '.join(ways)} at lengths {', '.join(map(str, lengths))}"
    largest, back = (0.0, 0.0), ""
    for length in lengths:
        given = arguments(inputs, length)
        outputs, refusals = _outputs(ways, given)
        if not outputs:
            return not_checked(
                "paths", why=next(iter(refusals.values())), do="Pass inputs that all ways take"
            )
        if refusals:
            failing = (
                f"at length {length}, {next(iter(refusals.values()))}, while {next(iter(outputs))} answers"
            )
            return failed("paths", tried=tried, failing=failing, cause=_CAUSE)
        worst, limit, failing = _furthest(outputs, given, depth)
        if worst <= limit:
            largest = max(largest, (worst, limit))
            both, (worst, limit, failing) = compared(ways, given, parameters, _terms(outputs, given), depth)
            back = f"; gradients of {', '.join(both)}" if both else back
        if not worst <= limit:
            failing = f"at length {length}, {failing}"
            return judged("paths", worst, limit, tried=tried + back, failing=failing, cause=_CAUSE)
    told = back or "; no two of them pass gradients"
    return judged("paths", *largest, tried=tried + told, failing="", cause=_CAUSE)


def _outputs(
    ways: Mapping[str, Callable[..., Any]], given: tuple[Any, ...]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    outputs: dict[str, Tensor] = {}
    refusals: dict[str, str] = {}
    for name, way in ways.items():
        shape = next(iter(outputs.values())).shape if outputs else None
        try:
            outputs[name] = ask(way, *given, shape=shape, name=name)
        except MisbehavedError as error:
            refusals[name] = str(error)
    return outputs, refusals


def _furthest(outputs: dict[str, Tensor], given: tuple[Any, ...], depth: int) -> tuple[float, float, str]:
    """The largest distance of two ways beside what rounding allows them, and the words for it."""
    terms = _terms(outputs, given)
    found = []
    for (one, a), (other, b) in combinations(outputs.items(), 2):
        if not a.numel():
            continue
        worst, where = place(distance(a, b))
        coarse = a if _eps(a) >= _eps(b) else b
        limit = other_kernels(coarse, terms, depth) if coarse.is_floating_point() else 0.0
        found.append((worst, limit, f"{one} and {other} are {worst:.2g} apart at {list(where)}"))
    return max(found, key=lambda pair: pair[0] - pair[1], default=(0.0, 0.0, ""))


def _terms(outputs: dict[str, Tensor], given: tuple[Any, ...]) -> int:
    return max(
        number for x in (*given, *outputs.values()) if isinstance(x, Tensor) for number in x.shape[-2:]
    )


def _eps(x: Tensor) -> float:
    return torch.finfo(x.dtype).eps if x.is_floating_point() else 0.0
