"""Do only differences of positions matter?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from headwise.check.asking import CannotBeCheckedError, MisbehavedError, asked, checked, refuse_unsteady
from headwise.check.comparing import Finding, first_failing, reported, shortest, worst
from headwise.check.inputs import Inputs
from headwise.check.report import Report
from headwise.check.rounding import other_share

PositionedFunction = Callable[[Tensor, Tensor], Tensor]
"""Takes sequences ``[batch length ...]`` and integer positions ``[length]``."""

_CAUSE = (
    "An encoding that is absolute, or a relative one that is not: look for a query and a key that do not "
    "turn by the same angles, for positions in half precision, where 256 and 257 are one number, for an "
    "absolute value or a clamp of the position, and for a table of another length"
)


@checked("shift")
def shift(
    f: PositionedFunction,
    inputs: Inputs,
    *,
    shifts: tuple[int, ...] = (1, -3, 17, 1000),
    lengths: tuple[int, ...] = (2, 5, 12),
    angles: torch.dtype = torch.float32,
    depth: int = 1,
) -> Report:
    """Adding one number to all positions changes nothing: ``f(x, positions)`` is relative.

    ``angles`` is the precision in which an encoding computes its angles, and ``depth`` the number of layers.
    Positions below 0 may be refused: this is told, and is no failure.

    The tolerance: an angle at position p, a product of two numbers of that precision, is off by at most
    ``p * eps``, and so is the difference of a query's and a key's, twice. A score of queries and keys of
    unit variance, of which the few fast pairs count, moves by about ``4 p eps``, its probability and so the
    output by that share. This is added to what any two runs may differ by.

    >>> from headwise.check import Vectors, shift
    >>> def f(x, positions):
    ...     return (-(positions[:, None] - positions).abs()).to(x).softmax(-1) @ x
    >>> shift(f, Vectors(4)).verdict
    'holds'
    >>> print(shift(lambda x, positions: x + positions[:, None], Vectors(4)).failing)
    the output at 0 of 1 changes by 0.46 of the largest output when 1 is added to all positions
    """
    refused: dict[int, str] = {}
    found = shortest(partial(_attempt, f, inputs, shifts, angles, depth, refused), lengths)
    if found.figure <= found.allowed and len(refused) == len(shifts):
        raise CannotBeCheckedError("it takes none of these shifts", "Pass shifts= that it can take")
    kept = [number for number in shifts if number not in refused]
    tried = f"{', '.join(map(str, kept))} added to {' and '.join(map(str, lengths))} positions"
    tried += "".join(f"; positions from {number} on are refused" for number in refused)
    return reported("shift", found, tried=tried, cause=_CAUSE)


def _attempt(
    f: PositionedFunction,
    inputs: Inputs,
    shifts: tuple[int, ...],
    angles: torch.dtype,
    depth: int,
    refused: dict[int, str],
    length: int,
) -> Finding:
    x, positions = inputs.make(2, length, seed=0), torch.arange(length)
    before = asked(f, x, positions)
    limit = other_share(inputs, x, before, depth)

    def one(number: int) -> Finding:
        try:
            after = asked(f, x, positions + number, finite=False)
        except MisbehavedError as error:
            if number >= 0:
                raise MisbehavedError(
                    f"with {number} added to all positions {error.why}", "Pass shifts= that it can take"
                ) from error
            refused[number] = error.why
            return Finding(0.0, limit, "")
        change = worst(before, after)
        said = f"when {number} is added to all positions"
        words = f"the output at {change.place} of {length} {change.words} {said}"
        return Finding(change.share, limit + angle_error(abs(number) + length, angles, depth), words)

    found = first_failing(map(one, sorted(shifts, key=abs)))
    if found.fails:
        refuse_unsteady(f, x, positions)
    return found


def angle_error(position: int, angles: torch.dtype, depth: int) -> float:
    """The share by which angles at that position may move an output, as `shift` derives it.

    >>> angle_error(1000, torch.float32, depth=1) < 5e-4
    True
    """
    return 4 * depth * position * torch.finfo(angles).eps
