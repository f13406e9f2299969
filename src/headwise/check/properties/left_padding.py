"""Does padding at the front change the real outputs?"""

from __future__ import annotations

from functools import partial

from headwise.check.asking import checked
from headwise.check.comparing import reported, shortest
from headwise.check.inputs import Inputs
from headwise.check.pads import PaddedFunction, contents, padding
from headwise.check.report import Report

_CAUSE = (
    "Usually positions that count the pads: take them from the mask, keep.cumsum(-1) - 1 and at least 0, for "
    "each row. Otherwise a mask that is inverted or lost, or a pad that sees no key and becomes not-a-number"
)


@checked("left padding")
def left_padding(
    f: PaddedFunction, inputs: Inputs, *, lengths: tuple[int, ...] = (1, 2, 5, 12), depth: int = 1
) -> Report:
    """Masked tokens before the real ones change nothing: ``f(x, keep)``, keep True for a real token.

    Every row is compared with itself alone, without pads: with 1 and with 7 pads, with a number of its own
    in each row, of random and, for vectors, of huge content. ``f`` takes positions from ``keep``. ``depth``
    is the number of layers it has.

    >>> from headwise.check import Vectors, left_padding
    >>> left_padding(lambda x, keep: x + keep.cumsum(-1)[..., None], Vectors(4)).verdict
    'holds'
    >>> print(left_padding(lambda x, keep: x + torch.arange(x.shape[1])[:, None], Vectors(4)).failing)
    the output at real place 0 of 1 changes by 1.5 of the largest output when 1 pad of random content comes \
before it
    """
    sizes, kinds = ", ".join(map(str, lengths)), " and ".join(contents(inputs))
    tried = f"rows of {sizes} with 1 and 7 pads, and unequal rows; {kinds} pads"
    found = shortest(partial(padding, f, inputs, "left", depth), lengths)
    return reported("left padding", found, tried=tried, cause=_CAUSE)
