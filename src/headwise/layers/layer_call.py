"""What a call of an attention layer is given, what attention gets of it, and what comes back."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

from jaxtyping import Float, Int
from torch import Tensor

from headwise.core import AttentionMap, Mask
from headwise.core.flexible import ScoreChange
from headwise.layers.cache.kv_cache import KVCache


class Given(TypedDict, total=False):
    """What a call may be given beside its tokens; see ``MultiHeadAttention.forward``."""

    mask: Mask | None
    positions: Int[Tensor, "*batch query"] | None
    memory_positions: Int[Tensor, "*batch key"] | None
    cache: KVCache | None
    head_mask: Float[Tensor, "*batch heads"] | None


class How(TypedDict):
    """How scores become weights: the arguments that ``attention`` and ``AttentionMap`` share."""

    mask: Mask | None
    bias: partial[Tensor] | None
    scale: float
    softcap: float | None
    sinks: Float[Tensor, " heads"] | None


class Call(NamedTuple):
    """One call, projected and turned; ``x`` is what asks, with its positions added."""

    x: Float[Tensor, "batch query model_dim"]
    q: Float[Tensor, "batch heads query head_dim"]
    k: Float[Tensor, "batch kv_heads key head_dim"]
    v: Float[Tensor, "batch kv_heads key value_dim"]
    how: How
    head_mask: Float[Tensor, "*batch heads"] | None
    value_bias: partial[Tensor] | None
    score_change: ScoreChange | None


class Attended(NamedTuple):
    """What the layer gave, and the weights each head gave it by: read in any way, dense by ``.dense()``."""

    output: Float[Tensor, "batch query model_dim"]
    weights: AttentionMap
