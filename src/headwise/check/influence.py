"""Which inputs reach which outputs, found by changing one input at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.check.asking import MisbehavedError, given
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


def gradients(f: SequenceFunction, x: Tensor) -> Float[Tensor, "output input"]:
    """The largest derivative of each output with regard to each input, 0 where ``f`` passes no gradient.

    >>> gradients(lambda x: 2 * x, torch.ones(1, 2, 1)) > 0
    tensor([[ True, False],
            [False,  True]])
    """
    length, rows = x.shape[1], []
    none = torch.zeros(length, length)
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        try:
            output = given(f, leaf)
        except MisbehavedError:
            return none  # it may be made for evaluation alone
        if not isinstance(output, Tensor) or not output.requires_grad:
            return none
        mixed = output * torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
        for place in range(length):  # mixed, because the plain sum of a normalised output never changes
            (gradient,) = torch.autograd.grad(
                mixed[:, place].sum(), leaf, retain_graph=True, allow_unused=True
            )
            gradient = torch.zeros_like(leaf) if gradient is None else gradient
            rows.append(gradient.float().abs().movedim(1, 0).flatten(1).amax(1))
    return torch.stack(rows).nan_to_num(nan=0.0)
