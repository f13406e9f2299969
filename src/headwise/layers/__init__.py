"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

from headwise.layers.multi_head_attention import Attended, MultiHeadAttention
from headwise.layers.positions import (
    ALiBi,
    CoPE,
    DeBERTa,
    ForgetGate,
    Integers,
    Learned,
    NoPosition,
    PositionalEncoding,
    Rotary,
    Shaw,
    Sinusoidal,
    TransformerXL,
)

__all__ = [
    "ALiBi",
    "Attended",
    "CoPE",
    "DeBERTa",
    "ForgetGate",
    "Integers",
    "Learned",
    "MultiHeadAttention",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Shaw",
    "Sinusoidal",
    "TransformerXL",
]
