"""Attention in blocks of queries: any mask, any bias, softcap, in O(keys * block) memory."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.utils.checkpoint import checkpoint

from headwise.core.autocast import without_autocast
from headwise.core.block import Block, Cut, Scores, ValueBiasFunction, cut_up
from headwise.core.kernel import fused_kernel, kernel_can
from headwise.core.shapes import check_value_bias

_BLOCK_ELEMENTS = 2**21  # of one block's scores: 8 MiB in float32, which caches hold and malloc reuses
_BLOCK_ELEMENTS_CUDA = 2**24  # there each block costs kernel launches instead
_FEW_BLOCKS = 8
_KEPT_ELEMENTS = 2**24  # blocks whose scores are fewer in all are kept for the backward pass
_RECOMPUTED_ELEMENTS = 2**24  # too large for malloc's heap, which gradients between small blocks fragment


def in_blocks(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    v: Float[Tensor, "batch kv_heads key value_dim"],
    how: Scores,
    dropout: float,
    value_bias: ValueBiasFunction | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Attention of one block of queries after another, each over the keys it can reach.

    >>> x = torch.ones(1, 1, 3, 2)
    >>> in_blocks(x, x, x, Scores(None, None, 1.0, softcap=50.0), dropout=0.0).shape
    torch.Size([1, 1, 3, 2])
    """
    queries, keys = q.shape[-2], k.shape[-2]
    kernel_fits = kernel_can(q.shape[-1], v.shape[-1])
    dense = how.softcap is not None or dropout > 0 or value_bias is not None or not kernel_fits
    # the scores of one query cost less than a bound on them, which `_lifted` asks of every key
    dense = dense or (queries == 1 and how.bias is not None and q.device.type == "cpu")
    batch, heads = q.shape[:2]  # a mask alone is shared by the heads
    matrices = max(1, batch * heads if dense or how.bias is not None else batch)
    most = (_BLOCK_ELEMENTS_CUDA if q.is_cuda else _BLOCK_ELEMENTS) // matrices
    if torch.compiler.is_compiling():  # each block becomes a graph of its own, which takes seconds to compile
        most = max(most, min(_BLOCK_ELEMENTS_CUDA // matrices, queries * keys // _FEW_BLOCKS))
    # the first of all cuts: one query of a window reads the window, not a whole cache
    block = Block((0, queries), (0, keys), keys - queries).part(0, queries, how.mask)
    whole = Cut(q, k[:, :, block.columns], v[:, :, block.columns], block)
    recompute = False
    if torch.is_grad_enabled():
        with torch.no_grad():
            scores = sum(cut.block.size for cut in cut_up(whole, how.mask, most))
        recompute = matrices * scores > _KEPT_ELEMENTS
        most = _RECOMPUTED_ELEMENTS // matrices if recompute else most
    densely = partial(_attend_densely, dropout=dropout, value_bias=value_bias)

    def attended(cut: Cut) -> Tensor:
        no_keys = cut.block.size == 0  # which not every kernel takes
        attend = densely if dense or no_keys else _attend_fused
        attend = partial(checkpoint, attend, use_reentrant=False) if recompute else attend
        return attend(*cut, how)

    if torch.is_grad_enabled() or torch.compiler.is_compiling() or transformed():
        outputs = [attended(cut) for cut in cut_up(whole, how.mask, most)]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    cuts = list(cut_up(whole, how.mask, most))
    if len(cuts) == 1:
        return attended(cuts[0])
    # small outputs kept between blocks' scores pin malloc's heap: it grew to 10 GB for 32,768 keys
    joined = q.new_empty(batch, heads, queries, v.shape[-1])
    for cut in cuts:
        joined[:, :, cut.block.rows] = attended(cut)
    return joined


def transformed() -> bool:
    """Whether torch.vmap or torch.func is at work, which allows no writing into a plain tensor.

    >>> torch.vmap(lambda x: x * transformed())(torch.ones(1)), transformed()
    (tensor([1.]), False)
    """
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def probabilities(
    q: Float[Tensor, "batch heads rows head_dim"],
    k: Float[Tensor, "batch kv_heads columns head_dim"],
    how: Scores,
    block: Block,
) -> Float[Tensor, "batch heads rows columns"]:
    """The softmax of the scores as a dense matrix, in float32 or better; zeros for a query without keys.

    >>> x = torch.zeros(1, 1, 2, 4)
    >>> probabilities(x, x, Scores(None, None, 1.0, None), Block((0, 2), (0, 2), 0))[0, 0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    scores = masked_scores(q, k, how, block)
    if how.sinks is not None:
        sinks = how.sinks[:, :, block.rows, None].to(scores.dtype)
        sinks = sinks.clamp(max=torch.finfo(scores.dtype).max)  # less infinity, infinity is no number
        return _softmax(torch.cat((scores, sinks), dim=-1))[..., :-1]
    return _softmax(scores)


def _softmax(scores: Tensor) -> Tensor:
    if not scores.shape[-1]:
        return scores
    empty = scores.detach().amax(-1, keepdim=True).isneginf()  # many times faster than `all`
    return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def masked_scores(
    q: Float[Tensor, "batch heads rows head_dim"],
    k: Float[Tensor, "batch kv_heads columns head_dim"],
    how: Scores,
    block: Block,
) -> Float[Tensor, "batch heads rows columns"]:
    """What the softmax is taken of, in float32 or better; minus infinity for what is not seen.

    >>> x = torch.ones(1, 1, 2, 4)
    >>> masked_scores(x, x, Scores(None, None, 0.5, None), Block((0, 2), (0, 2), 0))[0, 0]
    tensor([[2., 2.],
            [2., 2.]])
    """
    visible = block.visible(how.mask, q.device)
    product = grouped_product(wide(q) * how.scale, wide(k).mT)
    scores = capped_and_biased(product, how.softcap, block.bias(q, k, how, visible))
    return scores if visible is None else scores.masked_fill(~visible, -torch.inf)


def capped_and_biased(
    product: Float[Tensor, "batch heads rows columns"],
    softcap: float | None,
    bias: Float[Tensor, "#batch #heads rows columns"] | None,
) -> Float[Tensor, "batch heads rows columns"]:
    """``cap(scale * Q K^T) + bias`` of the scaled product.

    >>> capped_and_biased(torch.zeros(1, 1, 1, 2), 5.0, torch.ones(1, 1, 1, 2))
    tensor([[[[1., 1.]]]])
    """
    scores = product if softcap is None else softcap * torch.tanh(product / softcap)
    return scores if bias is None else scores + bias


def wide(x: Tensor) -> Tensor:
    """The tensor in float32 or better.

    >>> wide(torch.zeros(1, dtype=torch.bfloat16)).dtype, wide(torch.zeros(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _attend_densely(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block: Block,
    how: Scores,
    dropout: float,
    value_bias: ValueBiasFunction | None,
) -> Tensor:
    weights = drop(_without_denormals(probabilities(q, k, how, block), how), dropout)
    output = grouped_product(weights, wide(v))
    if value_bias is not None and block.size > 0:
        gained = value_bias(weights, block.rows, block.columns)
        check_value_bias(gained, tuple(output.shape))
        output = output + gained
    return output.to(q.dtype)


def _without_denormals(weights: Tensor, how: Scores) -> Tensor:
    """Zero for weights that rounding loses: a bias makes many, and a CPU is slow with their products."""
    if how.bias is None or weights.device.type != "cpu":
        return weights
    finite = torch.finfo(weights.dtype)
    return weights.masked_fill(weights < finite.tiny / finite.eps, 0.0)


def _attend_fused(q: Tensor, k: Tensor, v: Tensor, block: Block, how: Scores) -> Tensor:
    dtype = q.dtype
    visible = block.visible(how.mask, q.device)
    bias = block.bias(q, k, how, visible)
    if bias is not None:
        q, k, v = wide(q), wide(k), wide(v)  # a bias in half precision loses distances above 256
    added, empty = _added(q, k, how, visible, bias)
    with nullcontext() if bias is None else without_autocast(q.device):
        sinks = None if how.sinks is None else how.sinks[:, :, block.rows]
        output = fused_kernel(q, k, v, added, scale=how.scale, sinks=sinks)
    return (output if empty is None else output.masked_fill(empty, 0.0)).to(dtype)


def _added(
    q: Tensor, k: Tensor, how: Scores, visible: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Bias and mask as one tensor for the kernel, and which queries see no key; None for nothing.

    Kernels disagree on a row without keys, so the row of a query that sees none is left open here, and the
    caller sets what comes of it to zero.
    """
    hidden, empty = None, None
    if visible is not None:
        empty = ~visible.any(-1, keepdim=True)
        hidden = torch.where(visible | empty, 0.0, -torch.inf).to(q.dtype)
    if bias is None:
        return hidden, empty
    if isinstance(how.bias, Tensor):  # which may hide keys by itself
        added = _sum(bias, hidden)
        none = added.isneginf().all(-1, keepdim=True)
        added = torch.maximum(added, torch.where(none, 0.0, -torch.inf).to(added.dtype))
        return added, none if empty is None else empty | none
    bias = _lifted(bias, hidden, q, k, how.scale) if q.device.type == "cpu" else bias
    return _sum(bias, hidden), empty


def _sum(bias: Tensor, hidden: Tensor | None) -> Tensor:
    return bias if hidden is None else bias + hidden  # to fill the bias would take several times as long


@torch.no_grad()
def _floor(bias: Tensor, hidden: Tensor | None, q: Tensor, k: Tensor, scale: float) -> Tensor:
    longest_q, longest_k = q.norm(dim=-1).amax(-1), k.norm(dim=-1).amax(-1)
    groups = q.shape[1] // k.shape[1]
    apart = 2 * abs(scale) * longest_q * longest_k.repeat_interleave(groups, dim=1)
    apart = apart.nan_to_num(nan=torch.inf)[..., None, None]
    floor: Tensor = _sum(bias, hidden).amax(-1, keepdim=True) - apart
    return floor + 2 * math.log(torch.finfo(bias.dtype).eps)


def _lifted(bias: Tensor, hidden: Tensor | None, q: Tensor, k: Tensor, scale: float) -> Tensor:
    """The bias, lifted where a key cannot matter to where its weight is still a normal number.

    A CPU is a hundred times slower with denormal numbers. Scores differ by at most twice the product of the
    longest query and key, and a weight below eps^2 of the best one is lost in rounding, even 1 / eps of them.
    """
    return torch.maximum(bias, _floor(bias, hidden, q, k, scale))


def grouped_product(
    x: Float[Tensor, "batch heads rows inner"], y: Float[Tensor, "batch kv_heads inner columns"]
) -> Float[Tensor, "batch heads rows columns"]:
    """``x @ y`` where each of y's heads serves a group of x's.

    >>> grouped_product(torch.ones(1, 4, 2, 3), torch.ones(1, 2, 3, 5)).shape
    torch.Size([1, 4, 2, 5])
    """
    batch, heads, rows, inner = x.shape
    kv_heads = y.shape[1]
    with without_autocast(x.device):
        product = x.reshape(batch, kv_heads, heads // kv_heads * rows, inner) @ y
    return product.reshape(batch, heads, rows, y.shape[-1])
