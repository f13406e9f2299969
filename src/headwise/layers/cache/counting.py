"""Where tokens stand that are not told: each row counts on from its last real token."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def counted(
    first: Int[Tensor, " rows"], length: int, keep: Bool[Tensor, "#batch length"] | None
) -> Int[Tensor, "rows length"]:
    """Positions from ``first`` on; a token that is not real takes up none.

    >>> counted(torch.tensor([7]), 3, None)
    tensor([[7, 8, 9]])
    >>> counted(torch.tensor([0, 4]), 3, torch.tensor([[False, True, True], [True, True, True]]))
    tensor([[0, 0, 1],
            [4, 5, 6]])
    """
    if keep is None:
        return first[:, None] + torch.arange(length, device=first.device)
    return first[:, None] + (keep.cumsum(-1) - 1).clamp(min=0)


def following(
    positions: Int[Tensor, "rows length *axes"],
    keep: Bool[Tensor, "#batch length"] | None,
    first: Int[Tensor, " rows"],
) -> Int[Tensor, "rows length"]:
    """The position of whatever follows each token: one more than that of the last real token so far.

    Before any there is ``first``. With several axes, as in images, it is one more than all of them so far.

    >>> following(torch.tensor([[5, 6, 6]]), torch.tensor([[True, True, False]]), torch.tensor([5]))
    tensor([[6, 7, 7]])
    >>> following(torch.tensor([[[0, 3], [0, 1]]]), None, torch.tensor([0]))
    tensor([[4, 4]])
    """
    if positions.dim() == 3:
        after = positions.amax(-1) + 1
        after = after if keep is None else torch.where(keep, after, first[:, None])
        return torch.maximum(after.cummax(-1).values, first[:, None])
    after = positions + 1
    if keep is None:
        return after
    places = torch.arange(keep.shape[1], device=keep.device)
    last_real = torch.where(keep, places, -1).cummax(-1).values
    rows = max(len(after), len(last_real), len(first))
    after, last_real = after.expand(rows, -1), last_real.expand(rows, -1)
    return torch.where(last_real < 0, first[:, None], after.gather(-1, last_real.clamp(min=0)))
