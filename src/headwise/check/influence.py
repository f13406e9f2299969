"""Which inputs reach which outputs, found by changing one input at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.check.inputs import Inputs

SequenceFunction = Callable[[Tensor], Tensor]
"""Takes sequences ``[batch length ...]`` and gives ``[batch length ...]``, an output for each place."""


@torch.no_grad()
def influence(
    f: SequenceFunction, inputs: Inputs, *, length: int, batch: int = 2, seed: int = 0
) -> Float[Tensor, "output input"]:
    """How far each output moves when one input is replaced by another: the largest change over the batch.

    Not-a-number where an output becomes that.

    >>> from headwise.check.inputs import Vectors
    >>> (influence(lambda x: x.cumsum(1), Vectors(1), length=3) > 0).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    x = inputs.make(batch, length, seed)
    before = f(x)
    found = []
    for place in range(length):
        where = torch.zeros(batch, length, dtype=torch.bool)
        where[:, place] = True
        after = f(inputs.replace(x, where, seed + 1))
        found.append(changes(before, after))
    return torch.stack(found, dim=1)


def changes(before: Tensor, after: Tensor) -> Float[Tensor, " output"]:
    """The largest change at each place, over the batch and everything else; equal NaN are no change.

    >>> changes(torch.zeros(1, 2, 3), torch.tensor([[[0.0, 0.0, 0.0], [0.0, -2.0, 0.0]]]))
    tensor([0., 2.])
    """
    both = before.isnan() & after.isnan()
    apart = (after - before).float().abs().masked_fill(both, 0.0)
    return apart.movedim(1, 0).flatten(1).amax(1)
