"""Scalings of rotary frequencies: small objects, each a pure function of frequencies and a length."""

from headwise.layers.positions.scaling.interpolation import DynamicNTK, NTKAware, PositionInterpolation
from headwise.layers.positions.scaling.llama3 import Llama3
from headwise.layers.positions.scaling.longrope import LongRoPE
from headwise.layers.positions.scaling.proportional import Proportional
from headwise.layers.positions.scaling.scaling import FrequencyScaling
from headwise.layers.positions.scaling.yarn import YaRN

__all__ = [
    "DynamicNTK",
    "FrequencyScaling",
    "Llama3",
    "LongRoPE",
    "NTKAware",
    "PositionInterpolation",
    "Proportional",
    "YaRN",
]
