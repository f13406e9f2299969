"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

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
    "Integers",
    "Learned",
    "MultiHeadAttention",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Sinusoidal",
]
