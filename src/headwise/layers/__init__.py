"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

from headwise.layers.cache import FixedCache, KVCache, MemoryCache, RingCache
from headwise.layers.gates import GatePerChannel, GatePerHead, OutputGate
from headwise.layers.head_norm import HeadNorm, NormAfterRotation, NormBeforeRotation
from headwise.layers.latent_attention import Latents, MultiHeadLatentAttention
from headwise.layers.layer_call import Attended
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import (
    ALiBi,
    BEiTTable,
    Chain,
    CoPE,
    DeBERTa,
    Fire,
    ForgetGate,
    Integers,
    KerpleLog,
    KerplePower,
    Learned,
    LogCPB,
    NoPosition,
    PositionalEncoding,
    Rotary,
    Sandwich,
    Shaw,
    Sinusoidal,
    SwinTable,
    T5Bias,
    TransformerXL,
)
from headwise.layers.sinks import Sinks

__all__ = [
    "ALiBi",
    "Attended",
    "BEiTTable",
    "Chain",
    "CoPE",
    "DeBERTa",
    "Fire",
    "FixedCache",
    "ForgetGate",
    "GatePerChannel",
    "GatePerHead",
    "HeadNorm",
    "Integers",
    "KVCache",
    "KerpleLog",
    "KerplePower",
    "Latents",
    "Learned",
    "LogCPB",
    "MemoryCache",
    "MultiHeadAttention",
    "MultiHeadLatentAttention",
    "NoPosition",
    "NormAfterRotation",
    "NormBeforeRotation",
    "OutputGate",
    "PositionalEncoding",
    "RingCache",
    "Rotary",
    "Sandwich",
    "Shaw",
    "Sinks",
    "Sinusoidal",
    "SwinTable",
    "T5Bias",
    "TransformerXL",
]
