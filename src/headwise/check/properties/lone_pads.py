"""What becomes of a batch in which one row has no real token?"""

from __future__ import annotations

import torch

from headwise.check.asking import asked, checked
from headwise.check.comparing import worst
from headwise.check.inputs import Inputs
from headwise.check.pads import PaddedFunction
from headwise.check.report import Report, failed, judged
from headwise.check.rounding import other_share

_CAUSE = (
    "Usually a softmax over nothing but minus infinity, whose not-a-number reaches other rows by a sum over "
    "the batch, or a fast path that cuts the batch to its longest row: look at what is shared between rows"
)


@checked("lone pads")
def lone_pads(
    f: PaddedFunction, inputs: Inputs, *, length: int = 5, finite: bool = False, depth: int = 1
) -> Report:
    """A row without a real token leaves the other rows of its batch as they are alone.

    What the row itself gives counts only with ``finite=True``, and is told: many layers give not-a-number.

    >>> from headwise.check.inputs import Vectors
    >>> lone_pads(lambda x, keep: x / keep.sum(1).clamp(min=1)[:, None, None], Vectors(4)).verdict
    'holds'
    """
    x = inputs.make(2, length, seed=0)
    keep = torch.tensor([[False], [True]]).expand(2, length)
    alone = asked(f, x[1:], keep[1:])
    together = asked(f, x, keep, finite=False)
    change = worst(alone, together[1:])
    whole = bool(together[0].isfinite().all())
    gives = "finite numbers" if whole else "not-a-number"
    tried = f"a row of {length} pads beside one of {length} real places; it gives {gives}"
    failing = f"the output at {change.place} of the other row {change.words}"
    if finite and not whole and change.share < 1:
        return failed(
            "lone pads", tried=tried, failing="the row without a real token gives not-a-number", cause=_CAUSE
        )
    limit = other_share(inputs, x, alone, depth)
    return judged("lone pads", change.share, limit, tried=tried, failing=failing, cause=_CAUSE)
