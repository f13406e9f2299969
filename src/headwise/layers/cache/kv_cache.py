"""The cache of one self-attention layer, which grows as tokens come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.shapes import check_positions
from headwise.layers.cache import checks
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.entries import SHARED, Entries
from headwise.layers.cache.rows import side_by_side
from headwise.layers.cache.slots import Slots

_ROOM = 64  # slots at least that are added at once
_Cache = TypeVar("_Cache", bound="KVCache")


class KVCache:
    """Keys, values and positions of the tokens that one attention layer has seen, as many as come.

    Room is added a quarter at a time, so a step copies its own token and not all that came before. Keys are
    stored as attention sees them, turned by their positions. With ``bits=8`` keys and values are stored as
    whole numbers with one scale for each token and head: off by at most ``max |x| / 254``, in about half the
    memory of half precision, but read by copying everything at each step, and without gradients.

    Raises HeadwiseError where what is appended cannot follow what is held.

    >>> cache = KVCache()
    >>> k = v = torch.randn(2, 4, 3, 8)
    >>> cache.append(k, v).k.shape, cache.append(k, v).positions
    (torch.Size([2, 4, 3, 8]), tensor([0, 1, 2, 3, 4, 5]))
    >>> cache
    KVCache(6 tokens; 2 rows, 4 heads, float32, 34.0 KiB)
    """

    def __init__(self, *, bits: Literal[8] | None = None) -> None:
        checks.check_bits(bits, who=type(self).__name__)
        self.bits = bits
        self.seen = 0
        self._entries = Entries(bits == 8)
        self._slots = Slots()

    def append(
        self,
        k: Float[Tensor, "batch kv_heads length head_dim"],
        v: Float[Tensor, "batch kv_heads length value_dim"],
        positions: Int[Tensor, "*shape"] | None = None,
        keep: Bool[Tensor, "#batch length"] | None = None,
        *,
        features: Float[Tensor, "batch heads length"] | None = None,
        axes: int = 1,
    ) -> Cached:
        """Store the next tokens, and give back all that they may see.

        ``keep`` says which of them are real, and ``positions`` where they stand, with an axis more where an
        encoding has several ``axes``; each row counts on from its last real token unless they are given.
        """
        who, length = type(self).__name__, k.shape[2]
        checks.check_keys(k, v, who=who)
        if not self._passes_gradients():
            checks.check_no_gradient(k, v, who=who)
        if keep is not None:
            checks.check_keep(keep, batch=k.shape[0], length=length, who=who)
        if positions is None:
            positions = self.next_positions(length, keep, device=k.device, axes=axes)
        check_positions(positions, length=length, batch=k.shape[0], who=who, axes=axes)
        new = self._entries.of(self._slots, k, v, positions, keep, features, axes)
        if self._slots.count:
            dtypes = k.dtype, self._entries.dtype
            checks.check_continues(new, self._slots.tensors, dtypes, who=who)
        room = self._room(length)
        self._entries.align(self._slots, new)
        self._slots.extend(new, room)
        self.seen += length
        self._entries.dtype = k.dtype
        return self._read(length)

    def next_positions(
        self,
        length: int,
        keep: Bool[Tensor, "#batch length"] | None = None,
        *,
        device: torch.device | None = None,
        axes: int = 1,
    ) -> Int[Tensor, "*shape"]:
        """Where the next tokens stand unless told: each row counts on from its last real token.

        >>> cache, k = KVCache(), torch.zeros(1, 1, 2, 4)
        >>> _ = cache.append(k, k, positions=torch.tensor([[6, 7]]))
        >>> cache.next_positions(3)
        tensor([ 8,  9, 10])
        """
        return self._entries.count_on(self._slots, length, keep, device, axes)

    def keys(self, length: int) -> int:
        """How many slots attention gets when so many tokens are appended: what a mask has to fit."""
        return self._slots.count + length

    def check_mask(self, mask: Mask | None) -> None:
        """Raise HeadwiseError if the mask lets a query see what this cache does not hold."""

    def crop(self, length: int) -> None:
        """Go back to the first ``length`` tokens, as if the others had never come.

        Raises HeadwiseError for a length it did not have, or whose keys are gone.

        >>> cache, k = KVCache(), torch.randn(1, 2, 5, 4)
        >>> _ = cache.append(k, k)
        >>> cache.crop(3)
        >>> len(cache)
        3
        """
        checks.check_length(length, self._shortest(), self.seen, who=type(self).__name__)
        self._slots.stop = self._slots.start if length == 0 else self._slots.stop - (self.seen - length)
        self.seen = length

    def clear(self) -> None:
        """Forget every token; the memory is used again."""
        self.crop(0)

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was: for beams, and for rows that end.

        Raises HeadwiseError for anything but row numbers.

        >>> cache, k = KVCache(), torch.arange(2.0).reshape(2, 1, 1, 1)
        >>> _ = cache.append(k, k)
        >>> cache.reorder(torch.tensor([1, 1, 0]))
        >>> cache.append(k[[0, 0, 0]], k[[0, 0, 0]]).k[:, 0, 0, 0]
        tensor([1., 1., 0.])
        """
        checks.check_rows(rows, who=type(self).__name__)
        tensors = self._slots.tensors
        for name, x in tensors.items():
            if x.shape[0] > 1 or name not in SHARED:  # one row that all share stays one
                tensors[name] = x.index_select(0, rows.to(x.device))

    def copy(self: _Cache) -> _Cache:
        """The same tokens in memory of their own: neither sees what the other does afterwards."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._entries, twin._slots = self._entries.copy(), self._slots.copy()
        return twin

    @staticmethod
    def join(caches: Sequence[KVCache]) -> KVCache:
        """The rows of several caches as one batch, shorter ones padded on the left: each goes on as alone.

        Raises HeadwiseError unless they are growing caches of one layer that hold a token at least.

        >>> one, two, k = KVCache(), KVCache(), torch.randn(1, 2, 5, 4)
        >>> _ = one.append(k, k), two.append(k[:, :, :3], k[:, :, :3])
        >>> KVCache.join([one, two]).next_positions(1)
        tensor([[5],
                [3]])
        """
        checks.check_joined(caches, [type(cache) is KVCache and len(cache) > 0 for cache in caches])
        first, *others = caches
        for cache in others:
            checks.check_same_bits(cache.bits, first.bits)
            dtypes = cache._entries.dtype, first._entries.dtype
            one_row = {name: x[:1] for name, x in cache._slots.tensors.items()}
            checks.check_continues(
                one_row, {name: x[:1] for name, x in first._slots.tensors.items()}, dtypes, who="join"
            )
        joined = KVCache(bits=first.bits)
        joined._slots = side_by_side([cache._slots for cache in caches])
        joined.seen, joined._entries = joined._slots.count, first._entries.copy()
        return joined

    def to(
        self: _Cache, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> _Cache:
        """Move what is held, and convert keys and values; the cache itself changes, as a module does."""
        self._entries.to(self._slots, device, dtype)
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, those for tokens to come included."""
        return sum(x.numel() * x.element_size() for x in self._slots.tensors.values())

    def __len__(self) -> int:
        """Tokens so far, those included that are padding or that a window has dropped."""
        return self.seen

    def __bool__(self) -> bool:
        return True  # an empty cache is a cache

    def __copy__(self: _Cache) -> _Cache:
        return self.copy()

    def __deepcopy__(self: _Cache, memo: object) -> _Cache:
        return self.copy()

    def __repr__(self) -> str:
        how = [*self._options(), *(["bits=8"] if self.bits else [])]
        return (
            f"{type(self).__name__}({'; '.join([', '.join([f'{self.seen} tokens', *how]), *self._held()])})"
        )

    def _passes_gradients(self) -> bool:
        return self.bits is None

    def _options(self) -> list[str]:
        """What the repr says of how it was built."""
        return []

    def _held(self) -> list[str]:
        k = self._slots.tensors.get("k")
        if k is None:
            return []
        dtype = str(self._entries.dtype).removeprefix("torch.")
        return [f"{k.shape[0]} rows, {k.shape[1]} heads, {dtype}, {self.nbytes / 1024:.1f} KiB"]

    def _room(self, length: int) -> int:
        """Slots that the tensors must have so that so many tokens more fit."""
        if self._slots.stop + length <= self._slots.room:
            return self._slots.room
        needed = self._slots.count + length
        return needed + max(_ROOM, needed // 4)

    def _read(self, length: int) -> Cached:
        """What the last ``length`` tokens see."""
        return self._entries.read(self._slots)

    def _shortest(self) -> int:
        """The shortest length above 0 that it can go back to."""
        return self.seen - self._slots.count
