"""Which queries of a call are real tokens, as far as its mask tells."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.look.calls.call import HIDING, AttentionCall


def visible_pairs(call: AttentionCall) -> Bool[Tensor, "#batch #heads #query key"] | None:
    """The call's mask, with keys left out that its bias hides; causality is not part of it.

    >>> x = torch.zeros(1, 1, 1, 2)
    >>> visible_pairs(AttentionCall(x, x, x, x, scale=1.0, bias=torch.full((1, 1, 1, 1), -1e4)))
    tensor([[[[False]]]])
    """
    if call.bias is None:
        return call.visible
    shown = ~(call.bias <= HIDING)
    return shown if call.visible is None else shown & call.visible


def real_rows(call: AttentionCall) -> Bool[Tensor, "#batch #heads query"]:
    """Queries that see a key; with as many queries as keys, also some query must see the key in their place.

    >>> x, keep = torch.zeros(1, 1, 3, 2), torch.tensor([[[[False, True, True]]]])
    >>> real_rows(AttentionCall(x, x, x, x, scale=1.0, visible=keep))
    tensor([[[False,  True,  True]]])
    """
    queries, keys = call.q.shape[2], call.k.shape[2]
    pairs = visible_pairs(call)
    columns = torch.arange(keys, device=call.q.device)
    last = torch.full((queries,), keys - 1, device=call.q.device)
    if call.causal is not None:
        last = torch.arange(queries, device=call.q.device)
        last = last if call.causal == "upper left" else last + keys - queries
    if pairs is None:
        return (last >= 0)[None, None]
    if pairs.shape[2] == 1:  # one row of keys for every query
        first = torch.where(pairs, columns, keys).amin(-1)
        rows, seen = last >= first, pairs[:, :, 0]
    else:
        pairs = pairs if call.causal is None else pairs & (columns <= last[:, None])
        rows, seen = pairs.any(-1), pairs.any(-2)
    return rows & seen if queries == keys else rows
