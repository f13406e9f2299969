"""Brings what a model hands to attention into one layout: batch heads query head_dim."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor


class Laid(NamedTuple):
    """Queries, keys, values and output with four axes each."""

    q: Tensor
    k: Tensor
    v: Tensor
    output: Tensor


def split(lead: tuple[int, ...], heads: int | None, *, alone: str) -> tuple[int, int]:
    """Batch and heads of the axes before query and head_dim.

    One axis may be either: it holds ``heads`` where that divides it, or else is what ``alone`` says.

    >>> split((8,), 4, alone="heads"), split((8,), None, alone="heads"), split((8,), None, alone="batch")
    ((2, 4), (1, 8), (8, 1))
    >>> split((), None, alone="heads"), split((2, 4), 3, alone="heads"), split((5, 2, 4), None, alone="heads")
    ((1, 1), (2, 4), (10, 4))
    """
    if len(lead) == 0:
        return 1, 1
    if len(lead) == 1:
        if heads is not None and heads > 0 and lead[0] % heads == 0:
            return lead[0] // heads, heads
        return (1, lead[0]) if alone == "heads" else (lead[0], 1)
    return prod(lead[:-1]), lead[-1]


def lay(q: Tensor, k: Tensor, v: Tensor, output: Tensor, heads: int | None, *, alone: str) -> Laid:
    """Four axes for each; keys and values keep their own number of heads where they share it.

    >>> x, y = torch.zeros(2, 6, 3, 4), torch.zeros(1, 2, 5, 4)
    >>> [tuple(part.shape) for part in lay(x, y, y, x, None, alone="heads")]
    [(2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), (2, 6, 3, 4)]
    """
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        lead: tuple[int, ...] = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])  # type: ignore[no-untyped-call]
        if len(lead) == 3 and q.dim() == k.dim() == v.dim() and k.shape[2] == v.shape[2] == 1:
            # grouped heads as two axes: batch kv_heads group
            q, output = q.expand(*lead, -1, -1).flatten(1, 2), output.flatten(1, 2)
            return Laid(
                q, k[:, :, 0].expand(lead[0], -1, -1, -1), v[:, :, 0].expand(lead[0], -1, -1, -1), output
            )
        both = split(tuple(lead), heads, alone=alone)
        q, k, v = (x.expand(*lead, -1, -1).reshape(*both, *x.shape[-2:]) for x in (q, k, v))
        return Laid(q, k, v, output.reshape(*both, *output.shape[-2:]))
    batch, count = output.shape[:2]
    serves = k.shape[1] == v.shape[1] and count % k.shape[1] == 0
    kv_heads = -1 if serves else count
    q = q.expand(batch, count, -1, -1)
    k, v = (x.expand(batch, kv_heads, -1, -1) for x in (k, v))
    return Laid(q, k, v, output)


def lay_mask(mask: Tensor, lead: tuple[int, ...], both: tuple[int, int]) -> Tensor:
    """A mask that broadcasts to ``[*lead query key]`` with four axes, batch and heads being ``both``.

    >>> lay_mask(torch.zeros(3, 5), (2, 4), (2, 4)).shape, lay_mask(torch.zeros(8, 3, 5), (8,), (2, 4)).shape
    (torch.Size([1, 1, 3, 5]), torch.Size([2, 4, 3, 5]))
    """
    mask = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape)) if mask.dim() < 4 else mask
    if tuple(lead) == tuple(both) or prod(mask.shape[:-2]) == 1:
        return mask.flatten(0, -4)
    own = mask.shape[-2 - len(lead) : -2]
    return mask.reshape(*own, *mask.shape[-2:]).expand(*lead, -1, -1).reshape(*both, *mask.shape[-2:])
