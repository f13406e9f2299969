"""Scalings of rotary frequencies: small objects, each a pure function of frequencies and a length."""

from headwise.layers.positions.scaling.interpolation import NTK, DynamicNTK, PositionInterpolation
from headwise.layers.positions.scaling.llama3 import Llama3
from headwise.layers.positions.scaling.longrope import LongRoPE
from headwise.layers.positions.scaling.proportional import Proportional
from headwise.layers.positions.scaling.scaling import FrequencyScaling
from headwise.layers.positions.scaling.yarn import YaRN

__all__ = [
    "NTK",
    "DynamicNTK",
    "FrequencyScaling",
    "Llama3",
    "LongRoPE",
    "PositionInterpolation",
    "Proportional",
    "YaRN",
]
