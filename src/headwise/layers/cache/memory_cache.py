"""The cache of a cross-attention layer: a memory is projected once, and every later query reads it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.masks import All, Causal, Mask, Prefix, SlidingWindow
from headwise.core.shapes import check_positions, described
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.checks import check_length
from headwise.layers.cache.kv_cache import KVCache


class MemoryCache(KVCache):
    """Keys and values of one memory, and how many queries have read them.

    The first call of the layer brings the memory; later calls leave it out or bring the same one. ``len`` is
    the number of queries so far: they count on from there, and ``crop`` takes some of them back. The memory
    stays until ``clear``. Raises HeadwiseError for another memory, and for none at first.

    >>> from headwise import MultiHeadAttention
    >>> layer, cache = MultiHeadAttention(8, heads=2), MemoryCache()
    >>> memory, x = torch.randn(1, 6, 8), torch.randn(1, 2, 8)
    >>> first = layer(x[:, :1], memory, cache=cache)
    >>> torch.allclose(layer(x[:, 1:], cache=cache), layer(x, memory)[:, 1:], atol=1e-6)
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self._memory: Tensor | None = None
        self._version = 0
        self._queries: Tensor | None = None  # where they stood; one tensor, or each call would compile anew
        self._axes = 1

    @property
    def filled(self) -> bool:
        """Whether it holds a memory."""
        return self._memory is not None

    def fill(
        self,
        memory: Float[Tensor, "batch key memory_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        v: Float[Tensor, "batch kv_heads key value_dim"],
        positions: Int[Tensor, "*shape"],
        keep: Bool[Tensor, "#batch key"] | None = None,
        *,
        features: Float[Tensor, "batch heads key"] | None = None,
        axes: int = 1,
    ) -> Cached:
        """Store what the layer made of a memory. The memory itself is not copied, only known again."""
        cached = super().append(k, v, positions, keep, features=features, axes=axes)
        self.seen, self._memory, self._version = 0, memory, _version_of(memory)
        return cached

    def read(self) -> Cached:
        """The memory's keys and values."""
        return self._entries.read(self._slots)

    def check_memory(self, memory: Float[Tensor, "batch key memory_dim"] | None) -> None:
        """Raise HeadwiseError if there is no memory yet, or if this one is not that which is held."""
        known = self._memory
        if memory is None and self.filled:
            return
        if memory is not None and (known is None or self._is_known(memory, known)):
            return
        raise HeadwiseError(
            who="MemoryCache",
            what="memory",
            expected="the one it was filled with, or None" if self.filled else "given with the first call",
            got="another: " + described(memory) if memory is not None else "None",
            why="Its keys are made once",
            do="Use a MemoryCache for each memory, or clear() it" if self.filled else "Pass memory",
        )

    def next_positions(
        self,
        length: int,
        keep: Bool[Tensor, "#batch length"] | None = None,
        *,
        device: torch.device | None = None,
        axes: int = 1,
    ) -> Int[Tensor, "*shape"]:
        """Where the next queries stand unless told: each row counts on from its last one."""
        along = torch.arange(length, device=device)
        along = along if axes == 1 else along[:, None].expand(length, axes)
        return along if self._queries is None else self._after(self._queries, axes).to(along.device) + along

    def advance(self, positions: Int[Tensor, "*shape"], *, axes: int = 1) -> None:
        """Note that queries at these positions have read the memory."""
        self._axes = axes
        if self._length(positions):
            known = self._queries
            self._queries = positions if known is None else _joined(known, positions, self._along)
            self.seen += self._length(positions)

    def check_positions(self, positions: Int[Tensor, "*shape"] | None, *, batch: int, axes: int = 1) -> None:
        """Raise HeadwiseError if the memory's tokens are said to stand elsewhere than when it was stored."""
        known = self.read().positions
        if positions is not None:
            told = {"who": "MemoryCache", "what": "memory_positions"}
            check_positions(positions, length=self._slots.count, batch=batch, axes=axes, **told)
        if positions is None or torch.compiler.is_compiling() or bool((positions == known).all()):
            return
        raise HeadwiseError(
            who="MemoryCache",
            what="memory_positions",
            expected="those it was filled with, or None",
            got=described(positions) + " with other numbers",
            why="The memory's keys were turned by theirs",
            do="Leave them out, or clear() the cache",
        )

    def keys(self, length: int) -> int:
        return self._slots.count

    def check_mask(self, mask: Mask | None) -> None:
        every = mask.masks if isinstance(mask, All) else (mask,)
        if not any(isinstance(one, Causal | SlidingWindow | Prefix) for one in every):
            return
        raise HeadwiseError(
            who="MemoryCache",
            what="mask",
            expected="one that does not ask where the queries stand among the keys",
            got=str(mask),
            why="Queries have no place among the keys of a memory, and calls differ in their number",
            do="Mask the memory with Padding(keep) or Explicit(visible)",
        )

    def crop(self, length: int) -> None:
        """Take back all but the first ``length`` queries; the memory stays."""
        check_length(length, 0, self.seen, who="MemoryCache")
        if self._queries is not None:
            self._queries = self._queries.narrow(self._along, 0, length) if length else None
        self.seen = length

    def clear(self) -> None:
        """Forget the memory and the queries."""
        self._slots.stop = self._slots.start
        self.seen, self._memory, self._queries = 0, None, None

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Row i becomes what row ``rows[i]`` was, its memory too."""
        super().reorder(rows)
        if self._memory is not None:
            self._memory = self._memory.index_select(0, rows.to(self._memory.device))
            self._version = _version_of(self._memory)
        at, shared = self._queries, 1 if self._axes == 1 else 2  # axes of positions that all rows share
        if at is not None and at.dim() > shared and at.shape[0] > 1:
            self._queries = at.index_select(0, rows.to(at.device))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> MemoryCache:
        """Move and convert what is held, the memory that is known again too."""
        super().to(device, dtype)
        if self._memory is not None:
            self._memory = self._memory.to(device=device, dtype=dtype)
            self._version = _version_of(self._memory)
        self._queries = None if self._queries is None else self._queries.to(device=device)
        return self

    @property
    def _along(self) -> int:
        """The axis of positions along which queries follow each other."""
        return -1 if self._axes == 1 else -2

    def _after(self, queries: Tensor, axes: int) -> Tensor:
        """One more than the last query's position, in each row."""
        last = queries.narrow(self._along, self._length(queries) - 1, 1)
        return last.amax(-1, keepdim=True) + 1 if axes > 1 else last + 1

    def _length(self, positions: Tensor) -> int:
        return positions.shape[self._along]

    def _is_known(self, memory: Tensor, known: Tensor) -> bool:
        if memory is known and (torch.compiler.is_compiling() or _version_of(memory) == self._version):
            return True
        return memory is not known and _equal(memory, known)

    def _options(self) -> list[str]:
        return [f"memory of {self._slots.count}"]

    def _room(self, length: int) -> int:
        return length


def _joined(before: Tensor, after: Tensor, along: int) -> Tensor:
    """Positions of all rows together and of each row alike, one after the other."""
    if before.dim() != after.dim() or before.shape[0] != after.shape[0]:
        count = max(x.shape[0] if x.dim() > -along else 1 for x in (before, after))
        before, after = (x.expand(count, *x.shape[along:]) for x in (before, after))
    return torch.cat([before, after.to(before.device)], dim=along)


def _version_of(memory: Tensor) -> int:
    """How often it was changed in place; inference tensors do not count that."""
    if torch.compiler.is_compiling() or memory.is_inference():
        return 0
    return int(memory._version)


def _equal(memory: Tensor, known: Tensor) -> bool:
    if memory.shape != known.shape or memory.dtype != known.dtype or memory.device != known.device:
        return False
    return torch.compiler.is_compiling() or torch.equal(memory, known)
