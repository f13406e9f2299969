"""A causal mask that counts from the first key: the kernel's rule, which is not headwise's."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core import Mask


@dataclass(frozen=True)
class UpperLeftCausal(Mask):
    """The i-th query sees the keys 0 to i, however many keys there are: ``visible(i, j) = j <= i``.

    Slots count the queries as the last of the keys, so ``first_slot = keys - queries`` is taken off.

    >>> UpperLeftCausal(first_slot=2).visible(torch.arange(2, 4), torch.arange(4)).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0]], dtype=torch.int32)
    """

    first_slot: int

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "query key"]:
        return key_slots <= query_slots[:, None] - self.first_slot

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        return 0, min(max(last_query - self.first_slot + 1, 0), keys)

    def __str__(self) -> str:
        return "causal from the first key"
