"""Does a row depend on the other rows of its batch?"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from headwise.check.asking import asked, checked, refuse_unsteady
from headwise.check.comparing import Finding, first_failing, reported, shortest, worst
from headwise.check.influence import SequenceFunction
from headwise.check.inputs import Inputs
from headwise.check.report import Report
from headwise.check.rounding import other_share

_CAUSE = (
    "Usually axes mixed up in a reshape, a table or offset made for the first row alone, or a statistic over "
    "the batch: look at every view, flatten and mean, with one place and three rows"
)
# which rows of three form the batch, in words
_BATCHES = {
    "in a batch of two": [0, 1],
    "in a batch of three": [0, 1, 2],
    "in a batch of three in another order": [2, 0, 1],
    "in a batch where rows come twice": [0, 0, 1, 2, 2],
}


@checked("batch")
def batch(
    f: SequenceFunction, inputs: Inputs, *, lengths: tuple[int, ...] = (1, 2, 5), depth: int = 1
) -> Report:
    """Each row gives what it gives alone, whatever rows stand beside it.

    Rows are added, dropped, permuted and doubled, for sequences of one place too. ``depth`` is the number of
    layers ``f`` has.

    >>> from headwise.check import Vectors, batch
    >>> batch(lambda x: x.cumsum(1), Vectors(4)).verdict
    'holds'
    >>> print(batch(lambda x: x - x.mean(0), Vectors(4)).failing)
    row 0 at 0 of 1 is no longer what it is alone: it changes by 1.3 of the largest output in a batch of two
    """
    found = shortest(partial(_attempt, f, inputs, depth), lengths)
    tried = f"{', '.join(map(str, lengths))} places in batches of 1, 2, 3 and 5 rows"
    return reported("batch", found, tried=tried, cause=_CAUSE)


def _attempt(f: SequenceFunction, inputs: Inputs, depth: int, length: int) -> Finding:
    x = inputs.make(3, length, seed=0)
    alone = torch.cat([asked(f, x[row : row + 1]) for row in range(3)])
    limit = other_share(inputs, x, alone, depth)

    def one(case: tuple[str, list[int]]) -> Finding:
        words, rows = case
        together: Tensor = asked(f, x[rows], finite=False)
        change = worst(alone[rows], together)
        where = f"row {change.row} at {change.place} of {length} is no longer what it is alone"
        return Finding(change.share, limit, f"{where}: it {change.words} {words}")

    found = first_failing(map(one, _BATCHES.items()))
    if found.fails:
        refuse_unsteady(f, x)
    return found
