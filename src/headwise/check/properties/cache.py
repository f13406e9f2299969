"""Does a cache give what the whole sequence gives?"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from headwise.check.asking import asked, checked, made, refuse_unsteady
from headwise.check.comparing import Finding, first_failing, reported, shortest, worst
from headwise.check.influence import SequenceFunction
from headwise.check.inputs import Inputs
from headwise.check.pads import padded
from headwise.check.report import Report
from headwise.check.rounding import other_share
from headwise.core.shapes import check_positive

_STEPS = 3  # of one token, after a prompt

Step = Callable[..., Tensor]
"""Takes the next chunk ``[batch chunk ...]`` and gives its outputs, remembering what came before."""

_CAUSE = (
    "Usually positions, distances or a causal mask that start again with each chunk, a ring that overwrites "
    "keys which the chunk still needs, or a count that several layers, rows or requests share: look at what "
    "the second chunk is told about the first"
)


@checked("cache")
def cache(
    whole: SequenceFunction,
    start: Callable[[], Step],
    inputs: Inputs,
    *,
    window: int | None = None,
    rows: Literal["left", "right"] | None = None,
    lengths: tuple[int, ...] = (1, 2, 3, 6, 11),
    depth: int = 1,
) -> Report:
    """The whole sequence at once gives what its chunks give one after the other.

    ``start()`` gives a fresh ``step``, and ``step(chunk)`` the outputs of the next chunk: all at once, step
    by step, one step after the rest, and in random chunks, with a second sequence stepped in between.
    ``window`` is the number of keys a window or a ring cache holds: chunks then end just before, at and just
    after it, and wrap around it twice. With ``rows="left"`` or ``"right"`` it is ``step(chunk, keep)``, and
    rows of unequal lengths are tried, padded at that side in their first chunk. ``depth`` is the number of
    layers. Raises HeadwiseError if window is below 1.

    >>> from headwise.check import Vectors, cache
    >>> def start(starts_again=False):
    ...     total = 0.0
    ...     def step(chunk):
    ...         nonlocal total
    ...         sums = chunk.cumsum(1) + total
    ...         total = 0.0 if starts_again else sums[:, -1:]
    ...         return sums
    ...     return step
    >>> whole = lambda x: x.cumsum(1)
    >>> cache(whole, start, Vectors(4)).verdict
    'holds'
    >>> print(cache(whole, lambda: start(starts_again=True), Vectors(4)).failing)
    the output at 1 of 2 changes by 0.5 of the largest output when the sequence comes in chunks of 1 and 1
    """
    if window is not None:
        check_positive(window, who="cache", what="window")
        lengths = tuple(sorted({*lengths, max(window - 1, 1), window, window + 1, 2 * window + 3}))
    attempt = partial(_attempt, whole, start, inputs, window, depth)
    tried = f"{', '.join(map(str, lengths))} places, whole, step by step and in random chunks"
    if rows is not None:
        attempt = partial(_unequal_rows, whole, start, inputs, rows, depth)
        lengths = tuple(length for length in lengths if length > 1)
        sizes = ", ".join(map(str, lengths))
        tried = f"unequal rows of up to {sizes} places, padded {rows}, then {_STEPS} single steps"
    return reported("cache", shortest(attempt, lengths), tried=tried, cause=_CAUSE)


def chunkings(length: int, window: int | None) -> list[list[int]]:
    """The ways to cut a sequence, those with few chunks first.

    >>> chunkings(3, window=None)
    [[3], [1, 2], [2, 1], [1, 1, 1]]
    """
    borders = [1, length - 1]
    if window is not None:
        borders += [window - 1, window, window + 1]
    ways = [[length]] + [[cut, length - cut] for cut in sorted(set(borders)) if 0 < cut < length]
    if window is not None:  # a chunk in the middle that crosses the end of the window or of the ring
        ways += [[cut, 2, length - cut - 2] for cut in (window - 1, window) if 0 < cut < length - 2]
    ways += [_random_cuts(length, seed) for seed in (0, 1)] + [[1] * length]
    unlike = [way for number, way in enumerate(ways) if way not in ways[:number]]
    return sorted(unlike, key=len)


def _random_cuts(length: int, seed: int) -> list[int]:
    drawn, left = random.Random(seed), length
    cuts = []
    while left:
        cuts.append(drawn.randint(1, min(left, 4)))
        left -= cuts[-1]
    return cuts


def _attempt(
    whole: SequenceFunction,
    start: Callable[[], Step],
    inputs: Inputs,
    window: int | None,
    depth: int,
    length: int,
) -> Finding:
    x, other = inputs.make(2, length, seed=0), inputs.make(2, length, seed=1)
    at_once = asked(whole, x)
    limit = other_share(inputs, x, at_once, depth)

    def one(case: tuple[list[int], bool]) -> Finding:
        chunks, second = case
        change = worst(at_once, _stepped(start, x, chunks, other if second else None))
        cut = "one chunk through the cache" if len(chunks) == 1 else f"chunks of {_listed(chunks)}"
        words = f"the output at {change.place} of {length} {change.words} when the sequence comes in {cut}"
        found = Finding(
            change.share, limit, words + (", with a second sequence in between" if second else "")
        )
        if found.fails:
            refuse_unsteady(whole, x)
        return found

    ways = chunkings(length, window)
    return first_failing(map(one, [(way, False) for way in ways] + [([1] * length, True)]))


def _listed(chunks: list[int]) -> str:
    if len(chunks) > 3 and len(set(chunks)) == 1:
        return f"{chunks[0]} each"
    return " and ".join([", ".join(map(str, chunks[:-1])), str(chunks[-1])])


def _stepped(start: Callable[[], Step], x: Tensor, chunks: list[int], other: Tensor | None) -> Tensor:
    """The outputs of all chunks, side by side; another sequence takes the same steps beside it."""
    step, second = made(start, "start()"), made(start, "start()")
    outputs = []
    first = 0
    for size in chunks:
        outputs.append(asked(step, x[:, first : first + size], finite=False))
        if other is not None:
            asked(second, other[:, first : first + size], finite=False)
        first += size
    return torch.cat(outputs, dim=1)


def _unequal_rows(
    whole: SequenceFunction,
    start: Callable[[], Step],
    inputs: Inputs,
    side: Literal["left", "right"],
    depth: int,
    length: int,
) -> Finding:
    """Rows of unequal lengths in one padded chunk, then three steps of one token for each row."""
    lengths = [length, max(1, length // 2), 1]
    rows = [inputs.make(1, many + _STEPS, seed) for seed, many in enumerate(lengths)]
    found = Finding(0.0, 0.0, "")
    for row, many, stepped in zip(rows, lengths, _rows_stepped(start, inputs, rows, side), strict=True):
        alone = asked(whole, row)
        change = worst(alone, stepped)
        if change.share >= found.figure:
            among = f"in a batch of rows of {', '.join(map(str, lengths))}, padded {side}"
            words = f"{among}, the output at real place {change.place} of the row of {many} {change.words}"
            found = Finding(change.share, other_share(inputs, row, alone, depth), words)
    return found


def _rows_stepped(
    start: Callable[[], Step], inputs: Inputs, rows: list[Tensor], side: Literal["left", "right"]
) -> list[Tensor]:
    """The real outputs of each row."""
    prompts = [row[:, :-_STEPS] for row in rows]
    longest = max(prompt.shape[1] for prompt in prompts)
    first = padded(inputs, prompts, longest, side, "random", seed=len(rows))
    step, one = made(start, "start()"), torch.ones(len(rows), 1, dtype=torch.bool)
    outputs = asked(step, first.x, first.keep, finite=False)
    later = []
    for taken in range(_STEPS, 0, -1):
        chunk = torch.cat([row[:, row.shape[1] - taken, None] for row in rows])
        later.append(asked(step, chunk, one, finite=False))
    steps = torch.cat(later, dim=1)
    return [torch.cat([outputs[row, place], steps[row]])[None] for row, place in enumerate(first.real)]
