"""Is every output a finite number?"""

from __future__ import annotations

from functools import partial

from headwise.check.asking import asked, checked, sequences
from headwise.check.influence import SequenceFunction
from headwise.check.inputs import Inputs
from headwise.check.report import Report, failed

_CAUSE = (
    "Usually a softmax over nothing but minus infinity, a division by a count or a norm of zero, or memory "
    "that was never filled: look for the first step whose output is not finite"
)


@checked("finite")
def finite(f: SequenceFunction, inputs: Inputs, *, lengths: tuple[int, ...] = (1, 2, 33)) -> Report:
    """Every output is a finite number, for sequences of one place too, and for vectors ten times as large.

    >>> from headwise.check import Vectors
    >>> finite(lambda x: x / x.sum(1, keepdim=True), Vectors(4)).verdict
    'holds'
    >>> finite(lambda x: x / (x.shape[1] - 1), Vectors(4)).failing
    'the output at 0 of row 0 is not a finite number, for 2 sequences of 1 float32 vector of 4'
    """
    tried = f"2 sequences of each of {', '.join(map(str, lengths))} places"
    for length in lengths:
        x = inputs.make(2, length, seed=0)
        for given in (x, 10 * x) if x.is_floating_point() else (x,):
            bad = ~partial(asked, f, finite=False)(given).isfinite()
            if bool(bad.any()):
                row, place = (int(i) for i in bad.nonzero()[0, :2])
                words = f"the output at {place} of row {row} is not a finite number, for {sequences(given)}"
                larger = ", ten times as large as usual" if given is not x else ""
                return failed("finite", tried=tried, failing=words + larger, cause=_CAUSE)
    return Report("finite", "holds", tried=tried)
