"""What attention remembers of the tokens it has seen, one object for each attention layer."""

from headwise.layers.cache.cached import Cached
from headwise.layers.cache.fixed_cache import FixedCache
from headwise.layers.cache.kv_cache import KVCache
from headwise.layers.cache.memory_cache import MemoryCache
from headwise.layers.cache.ring_cache import RingCache

__all__ = ["Cached", "FixedCache", "KVCache", "MemoryCache", "RingCache"]
