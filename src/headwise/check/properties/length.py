"""What happens beyond the length that was trained?"""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.check.asking import asked, checked, raised
from headwise.check.comparing import distance
from headwise.check.influence import SequenceFunction, changes
from headwise.check.inputs import Inputs
from headwise.check.report import Report, failed
from headwise.check.rounding import other_kernels, same_kernels

_CAUSE = (
    "Usually an index into a table of positions that is taken modulo the table's length, clamped to its "
    "end, or not checked at all: refuse such a length by name, or compute the position's encoding"
)
_NAMED = re.compile(r"length|position|context|block.?size|max|at most|too long|limit", re.IGNORECASE)
_BATCH, _BEYOND = 8, 4


class _Pair(NamedTuple):
    """Two places whose contents are swapped, and what it means if nobody notices."""

    one: int
    other: int
    words: str


@checked("length", do="Pass inputs that fit, and trained= as the length it serves")
def length(f: SequenceFunction, inputs: Inputs, *, trained: int) -> Report:
    """Beyond the trained length ``f`` neither crashes nor reads wrong positions in silence.

    An input of ``trained + 4`` places is either refused by an error that speaks of the length, or answered;
    and then the new positions are distinct from those before. Whether two places are taken for one shows when
    their contents change places: the outputs elsewhere that see both must change. What is looked for is a
    position that counts from 0 again, and one that stays at the last trained position.

    >>> from headwise.check import Vectors, length
    >>> table = torch.randn(16, 4)
    >>> def wraps(x):
    ...     x = x + table[torch.arange(x.shape[1]) % 16]
    ...     return x.tanh().cumsum(1)
    >>> length(wraps, Vectors(4), trained=16).failing
    'position 16 is treated like position 0: swapping what stands there changes nothing'
    """
    places = trained + _BEYOND
    tried = f"an input of {places} places, trained on {trained}"
    x = inputs.make(_BATCH, places, seed=0)
    before = asked(f, inputs.make(_BATCH, trained, seed=0), finite=False)
    try:
        after = f(x)
    except Exception as error:
        return _refused(error, places, tried)
    failing = _bad_output(before, after, trained)
    if failing:
        return failed("length", tried=tried, failing=failing, cause=_CAUSE)
    return _swaps(f, inputs, x, after, trained, tried)


def _refused(error: Exception, places: int, tried: str) -> Report:
    if _NAMED.search(str(error)):
        return Report("length", "holds", tried=f"{tried}; refused: {raised(error)}")
    failing = f"with {places} places it crashes with {raised(error)}, which does not speak of the length"
    return failed("length", tried=tried, failing=failing, cause=_CAUSE)


def _bad_output(before: Tensor, after: Tensor, trained: int) -> str:
    places = trained + _BEYOND
    if after.shape[1] != places:
        return f"with {places} places it gives {after.shape[1]}"
    if not after.isfinite().all() and before.isfinite().all():
        return f"with {places} places it gives not-a-number, or infinity"
    return ""


@torch.no_grad()
def _swaps(
    f: SequenceFunction, inputs: Inputs, x: Tensor, output: Tensor, trained: int, tried: str
) -> Report:
    """Swap pairs of places, and see whether outputs elsewhere notice as they do for trained places."""
    # a swap adds the same numbers in another order, in float32 or better
    wide = output.to(torch.promote_types(output.dtype, torch.float32))
    limit = same_kernels(output) + other_kernels(wide, terms=x.shape[1])
    last = trained - 1
    known = _Pair(last - 1, last, "")
    usual = _noticed(f, inputs, x, output, known, limit)
    if usual is None or usual <= 2 * limit:
        why = f"order has too little effect: swapping positions {known.one} and {known.other} changes nothing"
        return Report("length", "holds", usual or 0.0, limit, tried=f"{tried}; {why}")
    smallest = usual
    for pair in _pairs(trained):
        noticed = _noticed(f, inputs, x, output, pair, limit)
        if noticed is not None and noticed <= limit:
            failing = f"{pair.words}: swapping what stands there changes nothing"
            return failed("length", noticed, limit, tried=tried, failing=failing, cause=_CAUSE)
        smallest = smallest if noticed is None else min(smallest, noticed)
    return Report("length", "holds", smallest, limit, tried=tried)


def _pairs(trained: int) -> list[_Pair]:
    like = "position {} is treated like position {}"
    found = [(trained, 0), (trained + 1, 1), (trained, 1), (trained, trained - 1), (trained + 1, trained)]
    return [_Pair(old, new, like.format(new, old)) for new, old in found]


def _noticed(
    f: SequenceFunction, inputs: Inputs, x: Tensor, output: Tensor, pair: _Pair, limit: float
) -> float | None:
    """The largest change of an output elsewhere that sees both places, or None if none does."""
    sees = torch.ones(x.shape[1], dtype=torch.bool)
    sees[[pair.one, pair.other]] = False
    for place in (pair.one, pair.other):
        where = torch.zeros(x.shape[:2], dtype=torch.bool)
        where[:, place] = True
        sees &= changes(output, f(inputs.replace(x, where, seed=1))) > 4 * limit
    if not sees.any():
        return None
    swapped = x.clone()
    swapped[:, [pair.one, pair.other]] = x[:, [pair.other, pair.one]]
    moved = distance(output, f(swapped)).movedim(1, 0).flatten(1).amax(1)
    return float(moved[sees].max())
