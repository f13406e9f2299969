"""What a cache hands to attention, and the mask that fits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.masks import Mask, Padding


class Cached(NamedTuple):
    """Everything the new queries may see, in the order of slots; the new tokens come last.

    ``keep`` is None while every slot is real. ``filled`` is None but for a cache of static shapes, whose
    tensors have a slot for all that may come: there it counts those in use.
    """

    k: Float[Tensor, "batch kv_heads key head_dim"]
    v: Float[Tensor, "batch kv_heads key value_dim"]
    positions: Int[Tensor, "*shape"]
    keep: Bool[Tensor, "batch key"] | None = None
    features: Float[Tensor, "batch heads key"] | None = None
    filled: int | None = None

    def mask(self, mask: Mask | None) -> Mask | None:
        """The mask, with the slots that are not real or not in use hidden too."""
        if self.keep is not None:
            mask = Padding(self.keep) if mask is None else mask & Padding(self.keep)
        return mask if self.filled is None else InUse(mask, self.filled, self.k.shape[2])

    def copy(self) -> Cached:
        """The same in memory of its own: what a cache hands out are views, written to after a rollback."""
        k, v, positions, keep, features, filled = self
        return Cached(
            k.clone(),
            v.clone(),
            positions.clone(),
            None if keep is None else keep.clone(),
            None if features is None else features.clone(),
            filled,
        )


@dataclass(frozen=True)
class InUse(Mask):
    """The first ``filled`` of ``slots`` slots are in use, and the queries are the last of those.

    >>> import torch
    >>> from headwise.core import Causal
    >>> InUse(Causal(), filled=3, slots=5).visible(torch.tensor([3, 4]), torch.arange(5)).int()
    tensor([[1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0]], dtype=torch.int32)
    """

    inner: Mask | None
    filled: int
    slots: int

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "*batch query key"]:
        in_use = (key_slots < self.filled).expand(len(query_slots), -1)
        if self.inner is None:
            return in_use
        return self.inner.visible(query_slots - (self.slots - self.filled), key_slots) & in_use

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        if self.inner is not None:
            self.inner.check(batch=batch, heads=heads, queries=queries, keys=keys)

    def __str__(self) -> str:
        return f"{self.filled} of {self.slots} slots" + ("" if self.inner is None else f" & {self.inner}")
