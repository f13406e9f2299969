"""Does the order of the inputs matter?"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from headwise.check.asking import asked, checked, refuse_unsteady
from headwise.check.comparing import Finding, Worst, first_failing, reported, shortest, worst
from headwise.check.influence import SequenceFunction
from headwise.check.inputs import Inputs
from headwise.check.report import Report
from headwise.check.rounding import other_share, permuted_share

_KNOWS = (
    "Something tells places apart: an encoding, a mask, or a window. Look at what reads the index of a place"
)
_BLIND = (
    "Usually an encoding that is made but not used: look at whether its result is what goes on, whether its "
    "frequencies or table survived loading, and whether the flag that turns it on reaches every layer. An "
    "effect as small as rounding does not show either: try float32, and weights that are not tiny"
)


@checked("equivariance")
def equivariance(
    f: SequenceFunction,
    inputs: Inputs,
    *,
    order_blind: bool | None = None,
    lengths: tuple[int, ...] = (3, 5, 12),
    depth: int = 1,
) -> Report:
    """Permuting the inputs does no more than permute the outputs, or it does, as claimed.

    - ``order_blind=True`` claims that it does no more: no encoding, no causal mask, no window.
    - ``order_blind=False`` claims that an encoding has an effect: the last output must notice when the inputs
      before it change places. A causal mask alone does not tell it, in one layer.
    - without a claim the report says in ``tried`` which of the two was found.

    >>> from headwise.check import Vectors, equivariance
    >>> sums = lambda x: x + x.sum(1, keepdim=True)
    >>> equivariance(sums, Vectors(4), order_blind=True).verdict
    'holds'
    >>> print(equivariance(sums, Vectors(4), order_blind=False).failing)
    the last output of 12 does not notice that the inputs before it change places
    >>> equivariance(lambda x: x.cumsum(1), Vectors(4)).tried
    '3 permutations of each of 3, 5, 12 places: it knows order'
    """
    tried = f"3 permutations of each of {', '.join(map(str, lengths))} places"
    if order_blind is False:
        return _knowing(f, inputs, max(lengths, default=12), depth)
    found = shortest(partial(_attempt, f, inputs, depth), lengths)
    if order_blind:
        return reported("equivariance", found, tried=tried, cause=_KNOWS)
    tried += f": it {'knows order' if found.fails else 'is order-blind'}"
    return Report("equivariance", "holds", tried=tried)


def _attempt(f: SequenceFunction, inputs: Inputs, depth: int, length: int) -> Finding:
    x = inputs.make(2, length, seed=0)
    before = asked(f, x)
    limit = other_share(inputs, x, before, depth)

    def one(order: Tensor) -> Finding:
        change = worst(before[:, order], asked(f, x[:, order], finite=False))
        words = (
            f"the output of input {int(order[change.place])} of {length} {change.words} when they come in the"
        )
        return Finding(change.share, limit, f"{words} order {', '.join(map(str, order.tolist()))}")

    found = first_failing(map(one, orders(length)))
    if found.fails:
        refuse_unsteady(f, x)
    return found


def _knowing(f: SequenceFunction, inputs: Inputs, length: int, depth: int) -> Report:
    x = inputs.make(2, length, seed=0)
    refuse_unsteady(f, x)
    before = asked(f, x)
    limit = permuted_share(inputs, x, before, depth)
    change = Worst(0.0, 0, 0)
    for order in orders(length - 1):
        order = torch.cat([order, torch.tensor([length - 1])])
        change = max(change, worst(before[:, -1:], asked(f, x[:, order], finite=False)[:, -1:]))
    tried = f"3 permutations of the {length - 1} inputs before the last"
    if change.share > limit:
        return Report("equivariance", "holds", change.share, limit, f"{tried}, which must change it")
    failing = f"the last output of {length} does not notice that the inputs before it change places"
    return Report("equivariance", "fails", change.share, limit, tried, failing, _BLIND)


def orders(length: int) -> list[Tensor]:
    """The first two inputs swapped, and two random permutations; none leaves all in place.

    >>> [order.tolist() for order in orders(3)][0]
    [1, 0, 2]
    """
    first = torch.arange(length)
    swapped = torch.cat([first[:2].flip(0), first[2:]])
    drawn = [torch.randperm(length, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    return [swapped, *(order if not torch.equal(order, first) else first.roll(1) for order in drawn)]
