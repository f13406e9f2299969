"""PyTorch's fused kernel, called so that it also serves values of another width and sinks."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

_MOST_PADDING = 128  # columns; measured at 128 and 1,024 tokens: beyond, dense blocks are as fast
_ALIGNED = 8  # elements to which kernels on a GPU want rows cut


def kernel_can(head_dim: int, value_dim: int) -> bool:
    """Whether the kernel, with the narrower of queries and values padded, is faster than dense blocks.

    >>> kernel_can(192, 128), kernel_can(16, 512)
    (True, False)
    """
    return abs(head_dim - value_dim) <= _MOST_PADDING


def fused_kernel(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    v: Float[Tensor, "batch kv_heads key value_dim"],
    added: Tensor | None,
    *,
    scale: float,
    causal: bool = False,
    dropout: float = 0.0,
    sinks: Float[Tensor, "batch heads query"] | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attention by the kernel; ``added`` is its mask, ``causal`` its flag (as many queries as keys).

    Zeros beside the narrower of queries and values change neither scores nor sums. A sink is a key of its
    own in front of the others: the query has its logit ``t`` in a column where the sink key has ``1 / scale``
    and every other key 0, so that its score is ``t`` and no other score changes. Its value is zero: it takes
    part in the denominator alone. The causal flag counts from the first key, which is now the sink; a query
    of zeros in front, whose output is dropped, lets query i see the sink and keys 0 to i.

    >>> x = torch.zeros(1, 1, 3, 2)
    >>> fused_kernel(x, x, torch.ones(1, 1, 3, 1), None, scale=1.0, sinks=torch.zeros(1, 1, 3)).flatten()
    tensor([0.7500, 0.7500, 0.7500])
    """
    head_dim, value_dim, queries = q.shape[-1], v.shape[-1], q.shape[2]
    if scale <= 0.0:  # the kernel on a CPU hides with minus infinity and multiplies by the scale afterwards
        q, scale = (-q, -scale) if scale else (q * 0.0, 1.0)
    if sinks is not None:
        q, k = with_sink_key(q, k, sinks, scale, least=value_dim)
        v = pad(v, (0, 0, 1, 0))
        q = pad(q, (0, 0, 1, 0)) if causal else q
        if added is not None:
            added = pad(added, (1, 0), value=True if added.dtype == torch.bool else 0.0)
    width = max(q.shape[-1], value_dim)
    if width > head_dim and sinks is None:
        q, k = pad(q, (0, width - head_dim)), pad(k, (0, width - head_dim))
    if width > value_dim:
        v = pad(v, (0, width - value_dim))
    grouped = q.shape[1] != k.shape[1]
    output = scaled_dot_product_attention(q, k, v, added, dropout, causal, scale=scale, enable_gqa=grouped)
    return output[:, :, output.shape[2] - queries :, :value_dim]


def with_sink_key(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    sinks: Float[Tensor, "batch heads query"],
    scale: float,
    *,
    least: int = 0,
) -> tuple[Float[Tensor, "batch heads query width"], Float[Tensor, "batch kv_heads keys width"]]:
    """Queries and keys in which the first key scores ``sinks`` and the others what they did.

    ``1 / scale`` is split into a power of two, exact in every dtype, and what is left. The logit times that
    stands in two columns, rounded and the rest, so that half precision keeps 16 bits of it.

    >>> q, k = with_sink_key(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2), torch.full((1, 1, 1), 3.0), 0.5)
    >>> 0.5 * (q @ k.mT)
    tensor([[[[3., 1.]]]])
    """
    head_dim = q.shape[-1]
    width = max(-(-(head_dim + 2) // _ALIGNED) * _ALIGNED, least)
    most = math.floor(math.log2(torch.finfo(q.dtype).max))
    power = 2.0 ** min(round(-math.log2(abs(scale))), most)
    logits = sinks.to(torch.promote_types(q.dtype, torch.float32)) / (scale * power)
    # infinity times the zero of another key is no number, nor is infinity less itself, in the softmax
    wide = torch.finfo(logits.dtype).max / (2 * max(power, 1.0))  # products and sums are in this dtype
    logits = logits.clamp(torch.finfo(q.dtype).min, min(torch.finfo(q.dtype).max / 2, wide))[..., None]
    rounded = logits.to(q.dtype)
    rest = (logits - rounded).detach().to(q.dtype)  # the gradient goes through what is rounded
    zeros = q.new_zeros(1).expand(*q.shape[:3], width - head_dim - 2)
    sink_key = pad(k.new_full((1, 1, 1, 2), power), (head_dim, width - head_dim - 2))
    keys = pad(k, (0, width - head_dim))
    return torch.cat((q, rounded, rest, zeros), dim=-1), torch.cat(
        (sink_key.expand(*k.shape[:2], 1, -1), keys), dim=2
    )
