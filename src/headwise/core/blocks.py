"""Attention in blocks of queries: any mask, any bias, softcap, in O(keys * block) memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from headwise.core.autocast import without_autocast
from headwise.core.masks import Mask
from headwise.core.shapes import check_bias

_BLOCK_ELEMENTS = 2**24  # of one score matrix: 64 MiB in float32
_MOST_ROWS = 512
_FEWEST_ROWS = 16


@runtime_checkable
class BiasFunction(Protocol):
    """Makes the additive bias of some of the call's queries (``rows``) and keys (``columns``).

    ``q`` and ``k`` are already cut to those rows and columns; ``visible`` is what the mask lets through, or
    None for everything. The result must be finite: hiding keys is the mask's work.
    """

    def __call__(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        rows: slice,
        columns: slice,
        visible: Bool[Tensor, "*batch query key"] | None,
    ) -> Float[Tensor, "#batch #heads query key"]: ...


@dataclass(frozen=True)
class Scores:
    """What happens between ``Q K^T`` and the softmax."""

    mask: Mask | None
    bias: Tensor | BiasFunction | None
    scale: float
    softcap: float | None


@dataclass(frozen=True)
class Block:
    """A rectangle of the score matrix; query row 0 stands at slot ``first_slot`` of the keys."""

    rows: slice
    columns: slice
    first_slot: int

    def visible(self, mask: Mask | None, device: torch.device) -> Tensor | None:
        """What the mask lets through, or None for everything."""
        if mask is None:
            return None
        first, last = self.first_slot + self.rows.start, self.first_slot + self.rows.stop
        query_slots = torch.arange(first, last, device=device)
        return mask.visible(query_slots, torch.arange(self.columns.start, self.columns.stop, device=device))

    def added(
        self, q: Tensor, k: Tensor, bias: Tensor | BiasFunction | None, visible: Tensor | None
    ) -> Tensor | None:
        """The bias of this block in float32 or better, or None."""
        if bias is None:
            return None
        if isinstance(bias, Tensor):
            added = bias[:, :, self.rows, self.columns]
        else:
            added = bias(q, k, self.rows, self.columns, visible)
            check_bias(added, (*q.shape[:3], k.shape[2]), what="what the bias function returns")
        return added.to(torch.promote_types(q.dtype, torch.float32))


def in_blocks(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    v: Float[Tensor, "batch kv_heads key value_dim"],
    how: Scores,
    dropout: float,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attention of one block of queries after another, each over the keys it can reach.

    >>> x = torch.ones(1, 1, 3, 2)
    >>> in_blocks(x, x, x, Scores(None, None, 1.0, softcap=50.0), dropout=0.0).shape
    torch.Size([1, 1, 3, 2])
    """
    dense = _needs_weights(q, v, how, dropout)
    batch, heads = q.shape[:2]  # a mask alone is shared by the heads
    blocks = _blocks(q, k, how, matrices=batch * heads if dense or how.bias is not None else batch)
    recompute = len(blocks) > 1 and torch.is_grad_enabled()
    outputs = []
    for block in blocks:
        cut = (q[:, :, block.rows], k[:, :, block.columns], v[:, :, block.columns], how, block, dropout)
        no_keys = block.columns.start == block.columns.stop  # which not every kernel takes
        attend = _attend_densely if dense or no_keys else _attend_fused
        outputs.append(checkpoint(attend, *cut, use_reentrant=False) if recompute else attend(*cut))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


def probabilities(
    q: Float[Tensor, "batch heads rows head_dim"],
    k: Float[Tensor, "batch kv_heads columns head_dim"],
    how: Scores,
    block: Block,
) -> Float[Tensor, "batch heads rows columns"]:
    """The softmax of the scores as a dense matrix, in float32 or better; zeros for a query without keys.

    >>> x = torch.zeros(1, 1, 2, 4)
    >>> probabilities(x, x, Scores(None, None, 1.0, None), Block(slice(0, 2), slice(0, 2), 0))[0, 0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    scores = _grouped_product(wide(q) * how.scale, wide(k).transpose(-1, -2))
    if how.softcap is not None:
        scores = how.softcap * torch.tanh(scores / how.softcap)
    visible = block.visible(how.mask, q.device)
    added = block.added(q, k, how.bias, visible)
    if added is not None:
        scores = scores + added
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    empty = scores.isneginf().all(-1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def wide(x: Tensor) -> Tensor:
    """The tensor in float32 or better.

    >>> wide(torch.zeros(1, dtype=torch.bfloat16)).dtype, wide(torch.zeros(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _needs_weights(q: Tensor, v: Tensor, how: Scores, dropout: float) -> bool:
    return how.softcap is not None or dropout > 0 or v.shape[-1] != q.shape[-1]


def _attend_densely(q: Tensor, k: Tensor, v: Tensor, how: Scores, block: Block, dropout: float) -> Tensor:
    weights = drop(probabilities(q, k, how, block), dropout)
    return _grouped_product(weights, wide(v)).to(q.dtype)


def _attend_fused(q: Tensor, k: Tensor, v: Tensor, how: Scores, block: Block, dropout: float) -> Tensor:
    dtype = q.dtype
    visible = block.visible(how.mask, q.device)
    added = block.added(q, k, how.bias, visible)
    context: AbstractContextManager[None] = nullcontext()
    if added is not None:
        context = without_autocast(q.device)
        q, k, v = wide(q), wide(k), wide(v)  # a bias in half precision loses distances above 256
        added = added if visible is None else added.masked_fill(~visible, -torch.inf)
        empty = added.amax(-1, keepdim=True).isneginf()
        allowed = added.masked_fill(empty, 0.0)
    else:
        assert visible is not None  # without mask and bias there are no blocks
        empty = ~visible.any(-1, keepdim=True)
        allowed = visible | empty  # kernels disagree on a row without keys, so none has one
    allowed = allowed if allowed.dim() == 4 else allowed[None, None]
    with context:
        output = scaled_dot_product_attention(
            q, k, v, allowed, scale=how.scale, enable_gqa=q.shape[1] != k.shape[1]
        )
    return output.masked_fill(empty, 0.0).to(dtype)


def _grouped_product(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` where each of y's heads serves a group of x's."""
    batch, heads, rows, inner = x.shape
    kv_heads = y.shape[1]
    with without_autocast(x.device):
        product = x.reshape(batch, kv_heads, heads // kv_heads * rows, inner) @ y
    return product.reshape(batch, heads, rows, y.shape[-1])


def _blocks(q: Tensor, k: Tensor, how: Scores, matrices: int) -> list[Block]:
    queries, keys = q.shape[-2], k.shape[-2]
    first_slot = keys - queries
    step = min(_MOST_ROWS, max(_FEWEST_ROWS, _BLOCK_ELEMENTS // max(1, keys * matrices)))
    blocks = []
    for start in range(0, max(1, queries), step):
        stop = min(start + step, queries)
        reach = (0, keys)
        if how.mask is not None:
            reach = how.mask.reach(first_slot + start, first_slot + stop - 1, keys)
        blocks.append(Block(slice(start, stop), slice(*reach), first_slot))
    return blocks
