"""Floor 0: errors and shapes, masks, attention. Imports nothing above it."""

from headwise.core.attention import attention, attention_weights
from headwise.core.attention_map import AttentionMap
from headwise.core.block import BiasFunction, ValueBiasFunction
from headwise.core.errors import HeadwiseError
from headwise.core.masks import Causal, Documents, Explicit, Mask, Padding, Prefix, SlidingWindow

__all__ = [
    "AttentionMap",
    "BiasFunction",
    "Causal",
    "Documents",
    "Explicit",
    "HeadwiseError",
    "Mask",
    "Padding",
    "Prefix",
    "SlidingWindow",
    "ValueBiasFunction",
    "attention",
    "attention_weights",
]
