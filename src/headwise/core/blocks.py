"""Attention in blocks of queries: any mask, any bias, softcap, in O(keys * block) memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from headwise.core.masks import Mask

_BLOCK_ELEMENTS = 2**21  # of one block's scores: 8 MiB in float32, which caches hold and malloc reuses
_BLOCK_ELEMENTS_CUDA = 2**24  # there each block costs kernel launches instead
_KEPT_ELEMENTS = 2**24  # blocks whose scores are fewer in all are kept for the backward pass
_MOST_ROWS = 512
_FEWEST_ROWS = 16


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

    @property
    def size(self) -> int:
        """Elements of one score matrix."""
        rows: int = self.rows.stop - self.rows.start
        columns: int = self.columns.stop - self.columns.start
        return rows * columns

    def part(self, start: int, stop: int, keys: int, mask: Mask | None) -> Block:
        """Some of the rows, over the columns that they can reach."""
        reach = (
            (0, keys)
            if mask is None
            else mask.reach(self.first_slot + start, self.first_slot + stop - 1, keys)
        )
        first = min(max(reach[0], self.columns.start), self.columns.stop)
        return Block(
            slice(start, stop), slice(first, max(first, min(reach[1], self.columns.stop))), self.first_slot
        )

    def visible(self, mask: Mask | None, device: torch.device) -> Tensor | None:
        """What the mask lets through, or None for everything."""
        if mask is None:
            return None
        first, last = self.first_slot + self.rows.start, self.first_slot + self.rows.stop
        query_slots = torch.arange(first, last, device=device)
        return mask.visible(query_slots, torch.arange(self.columns.start, self.columns.stop, device=device))

    def added(self, q: Tensor, k: Tensor, how: Scores) -> tuple[Tensor | None, Tensor | None]:
        """Bias and mask as one tensor to add to the scores, and which queries see no key: None for nothing.

        Hidden keys get minus infinity, but not in the row of a query that sees none: kernels disagree on such
        rows, so whoever adds this sets their result to zero.
        """
        visible, hidden, empty = self.visible(how.mask, q.device), None, None
        dtype = q.dtype if how.bias is None else torch.promote_types(q.dtype, torch.float32)
        if visible is not None:
            visible = visible if visible.dim() == 4 else visible[None, None]
            empty = ~visible.any(-1, keepdim=True)
            hidden = torch.where(visible | empty, 0.0, -torch.inf).to(dtype)
        if how.bias is None:
            return hidden, empty
        if not isinstance(how.bias, Tensor):
            bias = how.bias(q, k, self.rows, self.columns, visible).to(dtype)
            bias = _lifted(bias, hidden, q, k, how) if q.device.type == "cpu" else bias
            return _sum(bias, hidden), empty
        added = _sum(how.bias[:, :, self.rows, self.columns].to(dtype), hidden)
        none = added.isneginf().all(-1, keepdim=True)  # a tensor may hide keys by itself
        added = torch.maximum(added, torch.where(none, 0.0, -torch.inf).to(dtype))
        return added, none if empty is None else empty | none


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
    queries, keys = q.shape[-2], k.shape[-2]
    dense = _needs_weights(q, v, how, dropout)
    matrices = q.shape[0] * (q.shape[1] if dense or how.bias is not None else 1)
    most = _BLOCK_ELEMENTS_CUDA if q.is_cuda else _BLOCK_ELEMENTS
    whole = _Cut(q, k, v, Block(slice(0, queries), slice(0, keys), keys - queries))
    cuts = _cuts(whole, keys, how.mask, most // matrices)
    recompute = torch.is_grad_enabled() and matrices * sum(cut.block.size for cut in cuts) > _KEPT_ELEMENTS
    attend = _attend_densely if dense else _attend_fused
    outputs = []
    for cut in cuts:
        if cut.block.size == 0:
            outputs.append(q.new_zeros(*cut.q.shape[:-1], v.shape[-1]))
        elif recompute:
            outputs.append(checkpoint(attend, *cut, how, dropout, use_reentrant=False))
        else:
            outputs.append(attend(*cut, how, dropout))
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
    added, empty = block.added(q, k, how)
    weights = (scores if added is None else scores + added).softmax(-1)
    return weights if empty is None else weights.masked_fill(empty, 0.0)


def wide(x: Tensor) -> Tensor:
    """The tensor in float32 or better.

    >>> wide(torch.zeros(1, dtype=torch.bfloat16)).dtype, wide(torch.zeros(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _needs_weights(q: Tensor, v: Tensor, how: Scores, dropout: float) -> bool:
    return how.softcap is not None or dropout > 0 or v.shape[-1] != q.shape[-1]


def _attend_densely(q: Tensor, k: Tensor, v: Tensor, block: Block, how: Scores, dropout: float) -> Tensor:
    weights = drop(probabilities(q, k, how, block), dropout)
    return _grouped_product(weights, wide(v)).to(q.dtype)


def _attend_fused(q: Tensor, k: Tensor, v: Tensor, block: Block, how: Scores, dropout: float) -> Tensor:
    dtype = q.dtype
    added, empty = block.added(q, k, how)
    if how.bias is not None:
        q, k, v = wide(q), wide(k), wide(v)  # a bias in half precision loses distances above 256
    output = scaled_dot_product_attention(
        q, k, v, added, scale=how.scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return (output if empty is None else output.masked_fill(empty, 0.0)).to(dtype)


def _sum(bias: Tensor, hidden: Tensor | None) -> Tensor:
    return bias if hidden is None else bias + hidden  # to fill the bias would take several times as long


def _lifted(bias: Tensor, hidden: Tensor | None, q: Tensor, k: Tensor, how: Scores) -> Tensor:
    """The bias, lifted where a key cannot matter to where its weight is still a normal number.

    A CPU is a hundred times slower with denormal numbers. Scores differ by at most twice the product of the
    longest query and key, and a weight below eps^2 of the best one is lost in rounding, even 1 / eps of them.
    """
    with torch.no_grad():
        longest = wide(q).norm(dim=-1).amax() * wide(k).norm(dim=-1).amax() * abs(how.scale)
        best = _sum(bias, hidden).amax(-1, keepdim=True)
        floor = best - 2 * longest + 2 * math.log(torch.finfo(bias.dtype).eps)
    return torch.maximum(bias, floor)


def _grouped_product(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` where each of y's heads serves a group of x's."""
    batch, heads, rows, _ = x.shape
    product = x.reshape(batch, y.shape[1], -1, x.shape[-1]) @ y
    return product.reshape(batch, heads, rows, y.shape[-1])


class _Cut(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    block: Block


def _cuts(cut: _Cut, keys: int, mask: Mask | None, most: int) -> list[_Cut]:
    """The cut, or its halves, and so on until each is small enough.

    A slice's gradient is as large as what was sliced, so a quarter is cut from a half and not from the whole.
    """
    rows, columns = cut.block.rows, cut.block.columns
    count = rows.stop - rows.start
    if count <= _MOST_ROWS and (cut.block.size <= most or count <= _FEWEST_ROWS):
        return [cut]
    middle = rows.start + (count + 1) // 2
    cuts = []
    for start, stop in ((rows.start, middle), (middle, rows.stop)):
        half = cut.block.part(start, stop, keys, mask)
        first, last = half.columns.start - columns.start, half.columns.stop - columns.start
        q = cut.q[:, :, start - rows.start : stop - rows.start]
        cuts += _cuts(_Cut(q, cut.k[:, :, first:last], cut.v[:, :, first:last], half), keys, mask, most)
    return cuts
