"""Masks that only need to know where in the sequence a query and a key are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.masks.mask import Fused, Mask
from headwise.core.shapes import check_positive

_ENDLESS = 2**62  # more than any slot, and so little that adding it does not overflow


@dataclass(frozen=True)
class Causal(Mask):
    """A query sees its own slot and what came before: ``visible(i, j) = j <= i``.

    >>> slots = torch.arange(3)
    >>> Causal().visible(slots, slots).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    >>> print(Causal() & SlidingWindow(4))
    causal & the last 4 keys
    """

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "query key"]:
        return key_slots <= query_slots[:, None]

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        return 0, min(max(last_query + 1, 0), keys)  # the first of many queries stand before every key

    def ranges(
        self, query_slots: Int[Tensor, " query"], keys: int
    ) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]]:
        return torch.zeros_like(query_slots), (query_slots + 1).clamp(0, keys)

    def fused(self, queries: int, keys: int) -> Fused | None:
        if queries == 1:
            return Fused()  # the newest token sees the whole cache
        return Fused(causal=True) if queries == keys else None  # the kernel's flag counts from the top-left

    def __str__(self) -> str:
        return "causal"


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """A query sees the last ``window`` keys, itself included: ``visible(i, j) = 0 <= i - j < window``.

    ``ahead`` more keys after the query are seen too; with ``ahead=window - 1`` the window is symmetric.

    >>> slots = torch.arange(4)
    >>> SlidingWindow(2).visible(slots, slots).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """

    window: int
    ahead: int = 0

    def __post_init__(self) -> None:
        check_positive(self.window, who="SlidingWindow", what="window")
        if not isinstance(self.ahead, int) or self.ahead < 0:
            raise HeadwiseError(
                who="SlidingWindow",
                what="ahead",
                expected="a whole number, 0 or more",
                got=repr(self.ahead),
                why="It counts the keys after the query",
                do="Pass ahead=0 to look back only",
            )

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "query key"]:
        back = query_slots[:, None] - key_slots
        return (back < self.window) & (back >= -self.ahead)

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        stop = min(max(last_query + self.ahead + 1, 0), keys)
        return min(max(first_query - self.window + 1, 0), stop), stop

    def ranges(
        self, query_slots: Int[Tensor, " query"], keys: int
    ) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]]:
        back, ahead = min(self.window, _ENDLESS) - 1, min(self.ahead, _ENDLESS) + 1
        return (query_slots - back).clamp(min=0), (query_slots + ahead).clamp(0, keys)

    def fused(self, queries: int, keys: int) -> Fused | None:
        return Causal().fused(queries, keys) if self.window >= keys and not self.ahead else None

    def __str__(self) -> str:
        ahead = f" and {self.ahead} ahead" if self.ahead else ""
        return f"the last {self.window} keys{ahead}"


@dataclass(frozen=True)
class Prefix(Mask):
    """A prefix language model: causal, but the first ``length`` keys are seen by every query.

    ``visible(i, j) = j <= i or j < length``. Slots count: padding on the left is part of the prefix.

    >>> slots = torch.arange(4)
    >>> Prefix(2).visible(slots, slots).int()
    tensor([[1, 1, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """

    length: int

    def __post_init__(self) -> None:
        check_positive(self.length, who="Prefix", what="length")

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "query key"]:
        return (key_slots <= query_slots[:, None]) | (key_slots < self.length)

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        return 0, min(max(last_query + 1, self.length), keys)

    def ranges(
        self, query_slots: Int[Tensor, " query"], keys: int
    ) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]]:
        return torch.zeros_like(query_slots), (query_slots + 1).clamp(min=self.length).clamp(max=keys)

    def fused(self, queries: int, keys: int) -> Fused | None:
        return Fused() if queries == 1 or self.length >= keys else None

    def __str__(self) -> str:
        return f"causal after a prefix of {self.length}"
