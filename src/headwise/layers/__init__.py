"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

from headwise.layers.cache import FixedCache, KVCache, MemoryCache, RingCache
from headwise.layers.multi_head_attention import Attended, MultiHeadAttention
from headwise.layers.positions import (
    ALiBi,
    Integers,
    Learned,
    NoPosition,
    PositionalEncoding,
    Rotary,
    Sinusoidal,
)

__all__ = [
    "ALiBi",
    "Attended",
    "FixedCache",
    "Integers",
    "KVCache",
    "Learned",
    "MemoryCache",
    "MultiHeadAttention",
    "NoPosition",
    "PositionalEncoding",
    "RingCache",
    "Rotary",
    "Sinusoidal",
]
