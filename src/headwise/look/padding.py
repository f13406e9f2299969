"""Tells tokens from padding, by what the model's own masks say."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.look.call import AttentionCall
from headwise.look.documents import Real
from headwise.look.plainest import HIDING


class Padding:
    """What is padding in each call of a model, remembered from one call to the next.

    A key that no query may see is padding where all tokens of a text are queries, and then so is the query in
    its place. With a cache only the model's own ``attention_mask`` says it, and keys behind the last one that
    anybody sees are a cache's empty places. In cross-attention keys that nobody sees are padding, and queries
    are padding where they were in the self-attention before.

    >>> x = torch.zeros(1, 1, 3, 4)
    >>> keep = torch.tensor([[False, True, True]])
    >>> call = AttentionCall(x, x, x, x, scale=1.0, visible=keep[:, None, None])
    >>> Padding().real(call, itself=True, attention_mask=None).queries
    tensor([[False,  True,  True]])
    """

    def __init__(self) -> None:
        self._of_queries: Tensor | None = None

    def real(self, call: AttentionCall, *, itself: bool, attention_mask: Tensor | None) -> Real:
        """The real queries and keys of a call, given the mask that the model was called with, if any."""
        batch, (queries, keys) = call.q.shape[0], (call.q.shape[2], call.k.shape[2])
        seen = seen_keys(call)
        if not itself:
            before = self._of_queries
            fits = before is not None and before.shape == (batch, queries)
            return Real(before if fits and before is not None else seen.new_ones(batch, queries), seen)
        length = filled(seen, queries)
        if queries == length:
            kept = seen
        else:
            kept = torch.zeros_like(seen)
            kept[:, :length] = True
            marks = _of_keys(attention_mask, batch, keys, length)
            if marks is not None and not bool((seen[:, :length] & ~marks).any()):  # or it means another thing
                kept[:, :length] = marks
        self._of_queries = kept[:, length - queries : length]
        return Real(self._of_queries, kept)


def filled(seen: Bool[Tensor, "batch key"], queries: int) -> int:
    """How many places of a cache are filled: all, or those up to the last one that anybody sees.

    >>> filled(torch.tensor([[True, True, False, False]]), queries=1)
    2
    """
    keys = seen.shape[1]
    places = seen.any(0).nonzero()
    return int(places[-1]) + 1 if queries < keys and len(places) and int(places[-1]) + 1 >= queries else keys


def seen_keys(call: AttentionCall) -> Bool[Tensor, "batch key"]:
    """Which keys any query sees in any head.

    >>> q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 3, 4)
    >>> seen_keys(AttentionCall(q, k, k, q, scale=1.0, causal="upper left"))
    tensor([[ True,  True, False]])
    """
    batch, (queries, keys) = call.q.shape[0], (call.q.shape[2], call.k.shape[2])
    seen = torch.ones(1, keys, dtype=torch.bool, device=call.q.device)
    if call.causal == "upper left":
        seen[:, queries:] = False
    if call.visible is not None:
        seen = seen & call.visible.flatten(1, 2).any(1)
    if call.bias is not None:
        seen = seen & (call.bias.flatten(1, 2).amax(1) > HIDING)
    return seen.expand(batch, keys)


def _of_keys(mask: Tensor | None, batch: int, keys: int, length: int) -> Tensor | None:
    """The marks of the filled places of a cache, of which the oldest may have been forgotten."""
    if mask is None or mask.shape[0] != batch or mask.shape[1] < length:
        return None
    if mask.shape[1] in (keys, length):
        return mask[:, :length]
    return mask[:, -length:]
