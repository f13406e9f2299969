"""Room 1, build: the attention layer and every positional encoding. Imports core only."""

from headwise.layers.multi_head_attention import Attended, MultiHeadAttention
from headwise.layers.positions import (
    ALiBi,
    AxialRotary,
    Integers,
    Learned,
    MixedRotary,
    MultimodalRotary,
    NoPosition,
    PositionalEncoding,
    Rotary,
    Sinusoidal,
    XPos,
)
from headwise.layers.positions.axial import grid_positions
from headwise.layers.positions.multimodal import multimodal_positions
from headwise.layers.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Llama3,
    LongRoPE,
    NTKAware,
    PositionInterpolation,
    Proportional,
    YaRN,
)

__all__ = [
    "ALiBi",
    "Attended",
    "AxialRotary",
    "DynamicNTK",
    "FrequencyScaling",
    "Integers",
    "Learned",
    "Llama3",
    "LongRoPE",
    "MixedRotary",
    "MultiHeadAttention",
    "MultimodalRotary",
    "NTKAware",
    "NoPosition",
    "PositionInterpolation",
    "PositionalEncoding",
    "Proportional",
    "Rotary",
    "Sinusoidal",
    "XPos",
    "YaRN",
    "grid_positions",
    "multimodal_positions",
]
