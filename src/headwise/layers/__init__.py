"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

from headwise.layers.gates import GatePerChannel, GatePerHead, OutputGate
from headwise.layers.head_norm import HeadNorm, NormAfterRotation, NormBeforeRotation
from headwise.layers.latent_attention import Latents, MultiHeadLatentAttention
from headwise.layers.layer_call import Attended
from headwise.layers.multi_head_attention import MultiHeadAttention
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
from headwise.layers.sinks import Sinks

__all__ = [
    "ALiBi",
    "Attended",
    "CoPE",
    "DeBERTa",
    "ForgetGate",
    "GatePerChannel",
    "GatePerHead",
    "HeadNorm",
    "Integers",
    "Latents",
    "Learned",
    "MultiHeadAttention",
    "MultiHeadLatentAttention",
    "NoPosition",
    "NormAfterRotation",
    "NormBeforeRotation",
    "OutputGate",
    "PositionalEncoding",
    "Rotary",
    "Shaw",
    "Sinks",
    "Sinusoidal",
    "TransformerXL",
]
