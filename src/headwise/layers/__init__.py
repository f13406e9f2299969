"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

from headwise.layers.multi_head_attention import Attended, MultiHeadAttention
from headwise.layers.positions import (
    ALiBi,
    BEiTTable,
    Chain,
    Fire,
    Integers,
    KerpleLog,
    KerplePower,
    Learned,
    LogCPB,
    NoPosition,
    PositionalEncoding,
    Rotary,
    Sandwich,
    Sinusoidal,
    SwinTable,
    T5Bias,
)

__all__ = [
    "ALiBi",
    "Attended",
    "BEiTTable",
    "Chain",
    "Fire",
    "Integers",
    "KerpleLog",
    "KerplePower",
    "Learned",
    "LogCPB",
    "MultiHeadAttention",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Sandwich",
    "Sinusoidal",
    "SwinTable",
    "T5Bias",
]
