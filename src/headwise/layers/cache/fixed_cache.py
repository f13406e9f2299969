"""The cache whose memory is set aside once."""

from __future__ import annotations

from typing import Literal

from headwise.core.errors import HeadwiseError
from headwise.core.masks import All, Explicit, Mask
from headwise.core.shapes import check_positive
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.kv_cache import KVCache


class FixedCache(KVCache):
    """Room for ``capacity`` tokens, set aside when the first ones come, and an error when it is full.

    With ``static=True`` attention gets every slot at every step, those not in use hidden by the mask: all
    shapes stay the same, as compiled graphs want them, and each step costs as much as the last.

    Raises HeadwiseError if capacity is below 1 or more tokens come than fit.

    >>> cache, k = FixedCache(8), torch.randn(1, 2, 5, 4)
    >>> cache.append(k, k).k.shape, cache.full
    (torch.Size([1, 2, 5, 4]), False)
    >>> FixedCache(8, static=True).append(k, k).k.shape
    torch.Size([1, 2, 8, 4])
    """

    def __init__(self, capacity: int, *, static: bool = False, bits: Literal[8] | None = None) -> None:
        super().__init__(bits=bits)
        check_positive(capacity, who="FixedCache", what="capacity")
        self.capacity, self.static = capacity, static

    @property
    def full(self) -> bool:
        """Whether no token fits any more."""
        return self.seen == self.capacity

    def keys(self, length: int) -> int:
        return self.capacity if self.static else super().keys(length)

    def check_mask(self, mask: Mask | None) -> None:
        every = mask.masks if isinstance(mask, All) else (mask,)
        for one in every if self.static else ():
            if isinstance(one, Explicit) and one.pairs.shape[-2:] != (self.capacity, self.capacity):
                raise HeadwiseError(
                    who="FixedCache",
                    what="an explicit mask",
                    expected=f"[{self.capacity}, {self.capacity}], a row and a column for each slot",
                    got=str(list(one.pairs.shape)),
                    why="With static=True attention gets every slot, and queries are not the last of them",
                    do="Make the mask for all slots at once, or leave static out",
                )

    def _passes_gradients(self) -> bool:
        return not self.static and super()._passes_gradients()

    def _options(self) -> list[str]:
        return [f"capacity={self.capacity}", *(["static"] if self.static else [])]

    def _room(self, length: int) -> int:
        if self.seen + length <= self.capacity:
            return self.capacity
        raise HeadwiseError(
            who="FixedCache",
            what="the number of tokens",
            expected=f"at most capacity={self.capacity}",
            got=f"{self.seen} and {length} more",
            why="Its memory is set aside once",
            do="Build it with the longest length you generate, crop(length) it, or use KVCache, which grows",
        )

    def _read(self, length: int) -> Cached:
        return self._entries.read(self._slots, filled=self.seen if self.static else None)
