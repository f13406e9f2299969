"""Multi-head attention and positional encoding: build it, look inside it, prove it.

The names below load what they need when they are first used, so importing headwise is instant.
"""

# no "from __future__ import annotations" in this file: it would hide the room of that name

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.core import AttentionMap as AttentionMap
    from headwise.core import Causal as Causal
    from headwise.core import Documents as Documents
    from headwise.core import Explicit as Explicit
    from headwise.core import HeadwiseError as HeadwiseError
    from headwise.core import Mask as Mask
    from headwise.core import Padding as Padding
    from headwise.core import Prefix as Prefix
    from headwise.core import SlidingWindow as SlidingWindow
    from headwise.core import attention as attention
    from headwise.core import attention_weights as attention_weights
    from headwise.layers import MLP as MLP
    from headwise.layers import ALiBi as ALiBi
    from headwise.layers import Block as Block
    from headwise.layers import Decoder as Decoder
    from headwise.layers import Encoder as Encoder
    from headwise.layers import FixedCache as FixedCache
    from headwise.layers import GatedMLP as GatedMLP
    from headwise.layers import Greedy as Greedy
    from headwise.layers import KVCache as KVCache
    from headwise.layers import LanguageModel as LanguageModel
    from headwise.layers import Learned as Learned
    from headwise.layers import MemoryCache as MemoryCache
    from headwise.layers import MultiHeadAttention as MultiHeadAttention
    from headwise.layers import NoPosition as NoPosition
    from headwise.layers import PositionalEncoding as PositionalEncoding
    from headwise.layers import PostNorm as PostNorm
    from headwise.layers import PreNorm as PreNorm
    from headwise.layers import Residual as Residual
    from headwise.layers import RingCache as RingCache
    from headwise.layers import Rotary as Rotary
    from headwise.layers import Sample as Sample
    from headwise.layers import Sinusoidal as Sinusoidal
    from headwise.layers import TokenEmbedding as TokenEmbedding
    from headwise.layers import TokenModel as TokenModel
    from headwise.layers import Transformer as Transformer
    from headwise.layers import generate as generate
    from headwise.layers import make_blocks as make_blocks

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "ALiBi",
    "AttentionMap",
    "Block",
    "Causal",
    "Decoder",
    "Documents",
    "Encoder",
    "Explicit",
    "FixedCache",
    "GatedMLP",
    "Greedy",
    "HeadwiseError",
    "KVCache",
    "LanguageModel",
    "Learned",
    "Mask",
    "MemoryCache",
    "MultiHeadAttention",
    "NoPosition",
    "Padding",
    "PositionalEncoding",
    "PostNorm",
    "PreNorm",
    "Prefix",
    "Residual",
    "RingCache",
    "Rotary",
    "Sample",
    "Sinusoidal",
    "SlidingWindow",
    "TokenEmbedding",
    "TokenModel",
    "Transformer",
    "attention",
    "attention_weights",
    "generate",
    "make_blocks",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in __all__:
        for room in ("headwise.core", "headwise.layers"):
            module = import_module(room)
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'headwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
