"""Tells tokens from padding, by what the model's own masks say."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.look.call import AttentionCall
from headwise.look.documents import HIDING, Real


class Padding:
    """What is padding in each call of a model, remembered from one call to the next.

    A key that no query may see is padding where queries and keys are the same tokens, and then so is the
    query in its place. With a cache only the model's own ``attention_mask`` says it, and keys behind the last
    one that anybody sees are a cache's empty places. In cross-attention the queries are padding where they
    were in the self-attention before.

    >>> x = torch.zeros(1, 1, 3, 4)
    >>> keep = torch.tensor([[False, True, True]])
    >>> Padding().real(AttentionCall(x, x, x, x, scale=1.0, visible=keep[:, None, None]), None).queries
    tensor([[False,  True,  True]])
    """

    def __init__(self) -> None:
        self._of_queries: dict[tuple[int, int], Tensor] = {}

    def real(self, call: AttentionCall, attention_mask: Bool[Tensor, "batch key"] | None) -> Real:
        """The real queries and keys of a call, given the mask that the model was called with, if any."""
        batch, (queries, keys) = call.q.shape[0], (call.q.shape[2], call.k.shape[2])
        seen = _seen(call)
        length = keys
        if queries < keys and not bool(seen.all()):
            any_row = seen.any(0).nonzero()
            length = int(any_row[-1]) + 1 if len(any_row) else keys
        same = queries == length
        if same:
            kept = seen.clone()
        else:
            kept = torch.zeros_like(seen)
            kept[:, :length] = True
            if attention_mask is not None and attention_mask.shape == (batch, keys):
                kept &= attention_mask
        if same:
            of_queries = kept[:, :length]
            self._of_queries[batch, queries] = of_queries
        else:
            of_queries = self._of_queries.get((batch, queries), seen.new_ones(batch, queries))
        return Real(of_queries, kept)


def _seen(call: AttentionCall) -> Tensor:
    """Which keys any query sees in any head, ``[batch key]``; a causal flag hides none from all."""
    batch, keys = call.q.shape[0], call.k.shape[2]
    seen = torch.ones(1, keys, dtype=torch.bool, device=call.q.device)
    if call.visible is not None:
        seen = seen & call.visible.flatten(1, 2).any(1)
    if call.bias is not None:
        seen = seen & (call.bias.flatten(1, 2).amax(1) > HIDING)
    return seen.expand(batch, keys)
