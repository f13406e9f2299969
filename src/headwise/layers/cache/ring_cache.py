"""The cache of a layer with a window, which forgets what no later token can see."""

from __future__ import annotations

from typing import Literal

from headwise.core.errors import HeadwiseError
from headwise.core.masks import All, Mask, Prefix
from headwise.core.shapes import check_positive
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.kv_cache import KVCache

_SLACK = 64  # slots at least that are written before the last ones move to the front again


class RingCache(KVCache):
    """The last ``window - 1`` tokens and those of the call: what ``SlidingWindow(window)`` can see, no more.

    A call may bring more tokens than the window holds. Slots come out in order and without a copy: instead
    of going round, the last ones move to the front of the memory once in a quarter of a window. ``spare``
    more tokens are held for ``crop`` to go back to.

    Raises HeadwiseError if window is below 1, if spare is below 0, and for a mask that sees further back.

    >>> cache, k = RingCache(window=3), torch.arange(9.0).reshape(1, 1, 9, 1)
    >>> cache.append(k[:, :, :7], k[:, :, :7]).k.flatten()
    tensor([0., 1., 2., 3., 4., 5., 6.])
    >>> cache.append(k[:, :, 7:], k[:, :, 7:]).k.flatten(), len(cache)
    (tensor([5., 6., 7., 8.]), 9)
    """

    def __init__(self, window: int, *, spare: int = 0, bits: Literal[8] | None = None) -> None:
        super().__init__(bits=bits)
        check_positive(window, who="RingCache", what="window")
        if not isinstance(spare, int) or isinstance(spare, bool) or spare < 0:
            raise HeadwiseError(
                who="RingCache",
                what="spare",
                expected="a whole number, 0 or more",
                got=repr(spare),
                why="It counts the tokens that crop can take back",
                do="Pass the number of tokens that may be drafted and refused",
            )
        self.window, self.spare = window, spare

    def keys(self, length: int) -> int:
        return min(self._slots.count, self.window - 1) + length

    def check_mask(self, mask: Mask | None) -> None:
        keys = self.window + 1
        first, _ = (0, keys) if mask is None else mask.reach(keys - 1, keys - 1, keys)
        every = mask.masks if isinstance(mask, All) else (mask,)
        prefix = any(isinstance(one, Prefix) for one in every)
        if first > 0 and not prefix:
            return
        raise HeadwiseError(
            who="RingCache",
            what="mask",
            expected=f"one that sees at most the last {self.window} keys, without a prefix",
            got=str(mask),
            why="Earlier keys are gone, so the output would not be that of the whole sequence",
            do=f"Give the layer mask=SlidingWindow({self.window}), or use KVCache, which keeps every key",
        )

    def _options(self) -> list[str]:
        return [f"window={self.window}", *([f"spare={self.spare}"] if self.spare else [])]

    def _room(self, length: int) -> int:
        most = self.window - 1 + self.spare
        self._slots.start = max(self._slots.start, self._slots.stop - most)  # what no later token sees
        if self._slots.stop + length <= self._slots.room:
            return self._slots.room
        return most + max(length, _SLACK, self.window // 4)

    def _read(self, length: int) -> Cached:
        return self._entries.read(self._slots, last=min(self._slots.count, self.window - 1 + length))

    def _shortest(self) -> int:
        dropped = self.seen - self._slots.count
        return dropped + self.window - 1 if dropped else 0
