"""Tells tokens from padding, by what the model's own masks say."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.look.calls.call import HIDING, AttentionCall
from headwise.look.recordings.documents import Real


class Padding:
    """What is padding in each call of a model, remembered from one call to the next.

    A key that no query may see is padding where all tokens of a text are queries, and then so is the query in
    its place. With a cache only the model's own ``attention_mask`` says it; keys behind the last one that
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
        kept = seen.clone()
        if queries < length:  # a window may hide what no query of this call sees
            kept[:, :length] = True
        marks = _of_keys(attention_mask, batch, keys, length)
        if marks is not None:
            contradicts = (seen[:, :length] & ~marks).any(1) & marks.any(1)  # then it means another thing
            kept[:, :length] &= marks | contradicts[:, None]
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
    pairs = torch.ones(1, 1, keys, dtype=torch.bool, device=call.q.device)
    if call.causal == "upper left":
        pairs[..., queries:] = False
    if call.visible is not None:
        pairs = pairs & call.visible.any(1)
    if call.bias is not None:
        pairs = pairs & ~(call.bias.amax(1) <= HIDING)  # what is NaN hides nothing
    if pairs.shape[1] == keys > 1:
        pairs = _closed(pairs)
    return pairs.any(1).expand(batch, keys)


def _closed(pairs: Tensor) -> Tensor:
    """The pairs without those of queries that may see everything because they would see nothing.

    Some libraries open the rows of padding, as kernels disagree on a row without keys. Among rows that see no
    key behind themselves they stand out; only the last row may see every key.
    """
    full = pairs.all(-1)
    some = pairs & ~full[..., None]
    causal = some.any((1, 2)) & ~some.triu(1).any((1, 2))
    opened = full & causal[:, None]
    opened[:, -1] = False
    return pairs & ~opened[..., None]


def _of_keys(mask: Tensor | None, batch: int, keys: int, length: int) -> Tensor | None:
    """The marks of the filled places of a cache, of which the oldest may have been forgotten."""
    if mask is None or mask.shape[0] != batch or mask.shape[1] < length:
        return None
    if mask.shape[1] in (keys, length):
        return mask[:, :length]
    return mask[:, -length:]
