"""One call of a layer with a cache: what is checked before, and what attention gets."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from headwise.core.errors import HeadwiseError
from headwise.core.masks import All, Mask, Padding
from headwise.core.shapes import described, is_one_of
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.kv_cache import KVCache
from headwise.layers.cache.memory_cache import MemoryCache
from headwise.layers.positions import PositionalEncoding


class Turn:
    """A call's tokens take their turn behind those that the cache holds.

    Whatever does not fit is refused before anything is stored, so a call that raises leaves the cache as it
    was. Raises HeadwiseError for what is no cache or serves the other kind of attention, for an encoding
    whose keys do not stay valid, and for a mask that sees what the cache does not hold.

    >>> from headwise.layers.positions import NoPosition
    >>> x, cache = torch.zeros(1, 2, 8), KVCache()
    >>> turn = Turn(cache, NoPosition(), x, memory=None, mask=None, heads=2)
    >>> k = torch.zeros(1, 2, 2, 4)
    >>> turn.store(k, k, turn.positions(None), turn.positions(None)).positions
    tensor([0, 1])
    """

    def __init__(
        self,
        cache: object,
        position: PositionalEncoding,
        x: Tensor,
        *,
        memory: Tensor | None,
        mask: Mask | None,
        heads: int,
        who: str = "MultiHeadAttention",
    ) -> None:
        self.cache = _checked(cache, position, crosses=memory is not None, who=who)
        self.axes: int = position.axes
        self.x, self.raw = x, memory
        self.remembers = isinstance(self.cache, MemoryCache) and self.cache.filled
        length = x.shape[1] if memory is None else memory.shape[1]
        self.keep, self.mask = (None, mask) if self.remembers else split_padding(mask, self.cache, length)
        self.cache.check_mask(self.mask)
        if self.mask is not None:
            keys = length if memory is not None and not self.remembers else self.cache.keys(length)
            self.mask.check(batch=x.shape[0], heads=heads, queries=x.shape[1], keys=keys)

    def positions(self, given: Tensor | None) -> Tensor:
        """Where the call's tokens stand: as told, or counting on."""
        if given is not None:
            return given
        keep = None if isinstance(self.cache, MemoryCache) else self.keep
        return self.cache.next_positions(self.x.shape[1], keep, device=self.x.device, axes=self.axes)

    def memory(self, positions: Tensor | None, memory_dim: int) -> tuple[Tensor | None, Tensor | None]:
        """The memory left to project, and its positions: no token of it once the cache holds its keys."""
        if not isinstance(self.cache, MemoryCache):
            return None, positions
        self.cache.check_memory(self.raw)
        if not self.remembers:
            return self.raw, positions
        self.cache.check_positions(positions, batch=self.x.shape[0], axes=self.axes)
        return self.x.new_zeros(self.x.shape[0], 0, memory_dim), None

    def store(
        self,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        memory_positions: Tensor,
        features: Tensor | None = None,
    ) -> Cached:
        """Remember the call's tokens, and give what its queries may see."""
        cache, axes = self.cache, self.axes
        if not isinstance(cache, MemoryCache):
            return cache.append(k, v, positions, self.keep, features=features, axes=axes)
        if self.raw is not None and not self.remembers:
            cache.fill(self.raw, k, v, memory_positions, self.keep, features=features, axes=axes)
        cache.advance(positions, axes=axes)
        return cache.read()


def split_padding(mask: Mask | None, cache: KVCache, length: int) -> tuple[Tensor | None, Mask | None]:
    """Which of the ``length`` new tokens are real, and the mask without what the cache will know itself.

    Padding may speak of the new tokens alone, or of all tokens so far; the cache remembers either.

    >>> cache, k = KVCache(), torch.zeros(1, 1, 2, 4)
    >>> _ = cache.append(k, k)
    >>> split_padding(Padding(torch.tensor([[False]])), cache, length=1)
    (tensor([[False]]), None)
    """
    keep: Tensor | None = None
    rest: list[Mask] = []
    so_far = cache.seen + length  # len() would fix the number in compiled code
    for one in mask.masks if isinstance(mask, All) else () if mask is None else (mask,):
        if not isinstance(one, Padding) or not is_one_of(one.keep.shape[1], length, so_far):
            rest.append(one)
            continue
        new = one.keep[:, one.keep.shape[1] - length :]
        keep = new if keep is None else keep & new
        if one.keep.shape[1] != length:
            rest.append(Padding(_fitting(one.keep, cache.keys(length))))
    return keep, All(tuple(rest)) if len(rest) > 1 else rest[0] if rest else None


def _fitting(keep: Tensor, keys: int) -> Tensor:
    """The last of them where a ring has dropped some; more where a static cache has slots to come."""
    return keep[:, -keys:] if keys <= keep.shape[1] else pad(keep, (0, keys - keep.shape[1]))


def _checked(cache: object, position: PositionalEncoding, *, crosses: bool, who: str) -> KVCache:
    if not isinstance(cache, KVCache) or (crosses and not isinstance(cache, MemoryCache)):
        raise HeadwiseError(
            who=who,
            what="cache",
            expected="a MemoryCache where a memory is given" if crosses else "a KVCache, or None",
            got=described(cache),
            why="Each layer remembers its own tokens, and a memory is remembered once",
            do="Pass cache=MemoryCache()"
            if crosses
            else "Pass cache=KVCache() and the same one at each step",
        )
    if not position.cacheable:
        raise HeadwiseError(
            who=who,
            what="position",
            expected="an encoding that claims to be cacheable",
            got=repr(position),
            why="Its keys change as the sequence grows, so those stored before would be wrong",
            do="Run the whole sequence at each step, or fix the length that the encoding depends on",
        )
    return cache
