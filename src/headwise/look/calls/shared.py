"""Tells how many key/value heads a model has, also where it repeats them before the kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.look.calls.call import AttentionCall


def kv_heads_of(call: AttentionCall) -> int:
    """The number of different key/value heads: neighbours that are equal to the last bit are one.

    >>> q, k = torch.randn(1, 6, 3, 4), torch.randn(1, 2, 3, 4)
    >>> repeated = k.repeat_interleave(3, dim=1)
    >>> kv_heads_of(AttentionCall(q, repeated, repeated, q, scale=1.0))
    2
    """
    heads = call.kv_heads
    if heads < call.heads or heads == 1 or not torch.equal(call.k[:, 0], call.k[:, 1]) or not call.k.any():
        return heads
    for count in range(1, heads):
        if heads % count == 0 and all(torch.equal(x, _repeated(x, heads // count)) for x in (call.k, call.v)):
            return count
    return heads


def _repeated(x: Tensor, times: int) -> Tensor:
    return x[:, ::times].repeat_interleave(times, dim=1)
