"""Does the future leak into the past?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from headwise.check.asking import CannotBeCheckedError, asked, checked, refuse_unsteady
from headwise.check.comparing import Finding, Worst, first_failing, reported, shortest
from headwise.check.influence import SequenceFunction, gradients, influence
from headwise.check.inputs import Inputs
from headwise.check.report import Report
from headwise.check.rounding import largest, same_share

_CAUSE = (
    "Usually a mask that is off by one, that is aligned to the wrong corner, or that one of several paths "
    "drops: look at the diagonal of the mask, and at what becomes of it when a mask, weights or dropout are "
    "asked for"
)


@checked("causality")
def causality(
    f: SequenceFunction | Mapping[str, SequenceFunction],
    inputs: Inputs,
    *,
    lengths: tuple[int, ...] = (2, 3, 5, 12, 33),
) -> Report:
    """No output depends on a later input: ``f(x)[:, t]`` is the same whatever comes after t.

    Each input is replaced, one at a time, and the outputs before it must not move; where ``f`` can be
    differentiated, the gradient of each output with regard to later inputs must be zero. The shortest
    length that fails is reported, with the pair of places that leaks most. Several ways to call the same
    thing, each with a name in words, are tried in turn: masks are often lost on a side path.

    >>> from headwise.check import Vectors, causality
    >>> causality(lambda x: x.cumsum(1), Vectors(4)).verdict
    'holds'
    >>> print(causality(lambda x: x + x.roll(-1, dims=1), Vectors(4)).failing)
    the output at 0 changes by 0.51 of the largest output with the input at 1, of 2
    >>> ways = {"plain": lambda x: x.cumsum(1), "weights asked": lambda x: x.flip(1).cumsum(1)}
    >>> print(causality(ways, Vectors(4)).failing)  # doctest: +ELLIPSIS
    weights asked: the output at 0 changes by ... of the largest output with the input at 1, of 2
    """
    tried = f"2 inputs of each of {', '.join(map(str, lengths))} places"
    if not isinstance(f, Mapping):
        return reported("causality", _of_one(f, inputs, lengths), tried=tried, cause=_CAUSE)
    if not f:
        raise CannotBeCheckedError("there is no way to call it", "Pass a function, or {'plain': f}")
    found = first_failing(_of_one(way, inputs, lengths, f"{name}: ") for name, way in f.items())
    return reported("causality", found, tried=f"{tried}, {', '.join(f)}", cause=_CAUSE)


def _of_one(f: SequenceFunction, inputs: Inputs, lengths: tuple[int, ...], way: str = "") -> Finding:
    return shortest(partial(_attempt, f, inputs, way), lengths)


def _attempt(f: SequenceFunction, inputs: Inputs, way: str, length: int) -> Finding:
    x = inputs.make(2, length, seed=0)
    output = asked(f, x)
    limit = same_share(inputs, x, output)
    leak = influence(partial(asked, f, finite=False), inputs, length=length).triu(1) / (
        largest(output) or 1.0
    )
    what = "the largest output"
    if x.is_floating_point() and not bool((leak > limit).any()):
        slopes = gradients(f, x)
        slopes = slopes / (float(slopes.max()) or 1.0)
        if float(slopes.triu(1).max()) > limit:
            leak, what = slopes.triu(1), "the largest slope"
    leak = leak.nan_to_num(nan=torch.inf)
    share, (at, place) = float(leak.max()), divmod(int(leak.argmax()), length)
    changes = Worst(share, 0, at).words.replace("the largest output", what)
    found = Finding(share, limit, f"{way}the output at {at} {changes} with the input at {place}, of {length}")
    if found.fails:
        refuse_unsteady(f, x)
    return found
