"""Which texts a call reads: new ones, or more of those before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from headwise.look.calls.call import AttentionCall
from headwise.look.recordings.documents import Real
from headwise.look.recordings.given import Given
from headwise.look.recordings.padding import Padding, filled, seen_keys


@dataclass
class Texts:
    """The texts of one call, a row of the batch each.

    ``itself`` says whether queries and keys are the same text, ``continues`` whether its beginning was in
    earlier calls. ``before`` counts the real tokens that a rolling cache has already forgotten. ``tokens``
    are the numbers of the tokens behind the keys, where they are known.
    """

    itself: bool
    continues: bool
    real: Real
    before: list[int]
    tokens: Int[Tensor, "batch key"] | None


class Reader:
    """Follows a model from call to call.

    >>> reader, x = Reader(torch.nn.Identity(), Given()), torch.zeros(1, 1, 4, 2)
    >>> first, new = x[:, :, :3], x[:, :, 3:]
    >>> reader.texts(AttentionCall(first, first, first, first, scale=1.0)).continues
    False
    >>> reader.texts(AttentionCall(new, x, x, new, scale=1.0)).continues
    True
    """

    def __init__(self, model: nn.Module, given: Given) -> None:
        self.given = given
        self._modules = dict(model.named_modules())
        self._padding = Padding()
        self._lengths: dict[str, int] = {}  # of the text so far, by layer
        self._continues = False  # the last call of self-attention

    def texts(self, call: AttentionCall) -> Texts:
        """The texts of the next call."""
        queries, keys = call.q.shape[2], call.k.shape[2]
        length = filled(seen_keys(call), queries)
        so_far = self._lengths.get(call.layer, 0) + queries
        follows = queries < length and (length == so_far or self._rolls(call, length, so_far))
        itself = self._itself(call, length, follows)
        if not itself:
            real = self._padding.real(call, itself=False, attention_mask=None)
            tokens = _fitting(self.given.other_tokens(), 0, keys, keys)
            return Texts(False, self._continues, real, [0] * call.q.shape[0], tokens)
        self._continues = follows
        if not follows:
            so_far = length
            self.given.begins(call.module)
        self._lengths[call.layer] = so_far
        gone = so_far - length
        mask = self.given.attention_mask(call.module)
        real = self._padding.real(call, itself=True, attention_mask=mask)
        tokens = _fitting(self.given.tokens(call.module), gone, so_far, keys)
        return Texts(True, follows, real, _before(mask, gone, so_far, call.q.shape[0]), tokens)

    def _itself(self, call: AttentionCall, length: int, follows: bool) -> bool:
        queries, keys = call.q.shape[2], call.k.shape[2]
        appended = call.kind == "multi_head_attention_forward" and queries != keys  # to keys, and no tokens
        if queries > length or appended:
            return False
        known = self.given.itself(call.module)
        if known is not None:
            return known
        return call.causal is not None or queries == length or follows

    def _rolls(self, call: AttentionCall, length: int, so_far: int) -> bool:
        """Whether a cache that only keeps a window has forgotten the beginning of the text."""
        module: Any = self._modules.get(call.module)
        config = getattr(module, "config", None)
        window = getattr(module, "sliding_window", getattr(config, "sliding_window", None))
        kept = length - call.q.shape[2]
        return isinstance(window, int) and length < so_far and kept in (window - 1, window)


def _fitting(tokens: Tensor | None, gone: int, length: int, keys: int) -> Tensor | None:
    """The tokens behind the keys, if there is one for each; places of a cache that are empty get a 0."""
    if tokens is None or tokens.shape[1] != length:
        return None
    return torch.nn.functional.pad(tokens[:, gone:], (0, keys - (length - gone)))


def _before(mask: Bool[Tensor, "batch length"] | None, gone: int, length: int, batch: int) -> list[int]:
    if not gone or mask is None or mask.shape != (batch, length):
        return [gone] * batch
    counts: list[int] = mask[:, :gone].sum(1).tolist()
    return counts
