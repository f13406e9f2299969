"""Does it matter what masked tokens hold?"""

from __future__ import annotations

from functools import partial

from headwise.check.asking import CannotBeCheckedError, asked, checked, refuse_unsteady
from headwise.check.comparing import Finding, first_failing, reported, shortest, worst
from headwise.check.inputs import Inputs
from headwise.check.pads import Content, PaddedFunction, Side, contents, padded
from headwise.check.report import Report
from headwise.check.rounding import same_share

_CAUSE = (
    "Usually a mask that reaches the scores but not what else mixes places, such as a sum over the length or "
    "a normalisation, or a finite mask value that large scores outweigh: mask with minus infinity, and look "
    "for what reads x without keep"
)
_CASES = [(side, pads) for pads in (1, 7) for side in ("right", "left")]


@checked("pad content")
def pad_content(
    f: PaddedFunction, inputs: Inputs, *, lengths: tuple[int, ...] = (1, 2, 5, 12), nan: bool = False
) -> Report:
    """What masked tokens hold is irrelevant: ``f(x, keep)`` is the same at real places for any two contents.

    Random contents are compared with other random ones and, for vectors, with huge ones, at either end.
    Not-a-number in the pads is tried too, and told: a weight of zero times not-a-number is not a number,
    so plain attention lets it through. It counts as a failure only with ``nan=True``.

    >>> from headwise.check import Vectors, pad_content
    >>> pad_content(lambda x, keep: (x * keep[..., None]).cumsum(1), Vectors(4)).verdict
    'holds'
    >>> print(pad_content(lambda x, keep: x + x.sum(1, keepdim=True), Vectors(4)).failing)
    the output at real place 0 of 1 changes by 0.49 of the largest output when the pad after it is random in \
another way
    """
    kinds = contents(inputs)
    found = shortest(partial(_attempt, f, inputs, kinds), lengths)
    sizes = ", ".join(map(str, lengths))
    tried = f"rows of {sizes} with 1 and 7 pads before or after; {' and '.join(kinds)} pads"
    if "huge" in kinds and not found.fails:
        through = shortest(partial(_attempt, f, inputs, ("not-a-number",)), lengths)
        found = through if nan else found
        if not nan:
            reaches = (
                "reaches real places, which is not counted" if through.fails else "does not reach real places"
            )
            tried += f"; not-a-number in pads {reaches}"
    return reported("pad content", found, tried=tried, cause=_CAUSE)


def _attempt(f: PaddedFunction, inputs: Inputs, kinds: tuple[Content, ...], length: int) -> Finding:
    tries = [(side, pads, content) for side, pads in _CASES for content in kinds]
    return first_failing(map(partial(_one_case, f, inputs, length), tries))


def _one_case(f: PaddedFunction, inputs: Inputs, length: int, case: tuple[Side, int, Content]) -> Finding:
    side, pads, content = case
    rows = [inputs.make(1, length, seed) for seed in (0, 1)]
    x, keep, real = padded(inputs, rows, length + pads, side, "random", seed=2)
    other = padded(inputs, rows, length + pads, side, content, seed=3).x
    before = asked(f, x, keep, finite=False)[:, real[0]]
    if not bool(before.isfinite().all()):
        raise CannotBeCheckedError(
            f"with {pads} random pad{'s' * (pads > 1)} {'before' if side == 'left' else 'after'} them, "
            f"{length} real places give outputs that are not finite",
            f"Look at {side}_padding first",
        )
    change = worst(before, asked(f, other, keep, finite=False)[:, real[0]])
    where, what = "before" if side == "left" else "after", f"{pads} pads" if pads > 1 else "pad"
    words = {"random": "random in another way", "huge": "huge", "not-a-number": "not-a-number"}[content]
    said = f"the output at real place {change.place} of {length} {change.words} when the {what} {where} it"
    found = Finding(
        change.share, same_share(inputs, x, before), f"{said} {'are' if pads > 1 else 'is'} {words}"
    )
    if found.fails:
        refuse_unsteady(f, x, keep)
    return found
