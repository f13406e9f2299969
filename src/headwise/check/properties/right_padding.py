"""Does padding at the end change the real outputs?"""

from __future__ import annotations

from functools import partial

from headwise.check.asking import checked
from headwise.check.comparing import reported, shortest
from headwise.check.inputs import Inputs
from headwise.check.pads import PaddedFunction, contents, padding
from headwise.check.report import Report

_CAUSE = (
    "Usually a mask that is inverted, that hides queries in place of keys, that serves one row of the batch "
    "for all, or that adds a finite number which large scores outweigh: look at what becomes of keep, and "
    "mask with minus infinity"
)


@checked("right padding")
def right_padding(
    f: PaddedFunction, inputs: Inputs, *, lengths: tuple[int, ...] = (1, 2, 5, 12), depth: int = 1
) -> Report:
    """Masked tokens after the real ones change nothing: ``f(x, keep)``, keep True for a real token.

    Every row is compared with itself alone, without pads: with 1 and with 7 pads, with a number of its own
    in each row, of random and, for vectors, of huge content. ``depth`` is the number of layers ``f`` has.

    >>> from headwise.check import Vectors, right_padding
    >>> f = lambda x, keep: (x * keep[..., None]).sum(1, keepdim=True) + x
    >>> right_padding(f, Vectors(4)).verdict
    'holds'
    >>> print(right_padding(lambda x, keep: x.sum(1, keepdim=True) + x, Vectors(4)).failing)
    the output at real place 0 of 1 changes by 0.76 of the largest output when 1 pad of random content comes \
after it
    """
    sizes, kinds = ", ".join(map(str, lengths)), " and ".join(contents(inputs))
    tried = f"rows of {sizes} with 1 and 7 pads, and unequal rows; {kinds} pads"
    found = shortest(partial(padding, f, inputs, "right", depth), lengths)
    return reported("right padding", found, tried=tried, cause=_CAUSE)
