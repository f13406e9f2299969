"""Scaled dot-product attention with headwise's conventions, on PyTorch's fused kernels where they serve."""

from __future__ import annotations

from contextlib import nullcontext

from jaxtyping import Float
from torch import Tensor
from torch.overrides import handle_torch_function

from headwise.core.block import BiasFunction, Block, Scores, ValueBiasFunction
from headwise.core.blocks import in_blocks, probabilities
from headwise.core.flexible import ScoreChange, flexible_attention, is_flexible, takes
from headwise.core.inputs import check_inputs
from headwise.core.kernel import fused_kernel, kernel_can
from headwise.core.masks import Fused, Mask
from headwise.core.sinks import sinks_of_queries
from headwise.core.watched import in_pieces, to_be_told


def attention(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    v: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    mask: Mask | None = None,
    bias: Float[Tensor, "#batch #heads query key"] | BiasFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " heads"] | Float[Tensor, "#batch heads query"] | None = None,
    dropout: float = 0.0,
    value_bias: ValueBiasFunction | None = None,
    score_change: ScoreChange | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """Each query's average of the values, weighted by how well the keys match it.

    ``P = softmax(cap(scale * Q K^T) + bias)`` over the visible keys, then dropout, then ``P V``; here
    ``cap(s)`` is ``softcap * tanh(s / softcap)``, or ``s`` without one. Vaswani et al. 2017, arXiv
    1706.03762, eq. (1).

    - ``scale`` is ``1 / sqrt(head_dim)`` unless given, and applies once.
    - Grouped queries: heads ``g*r .. g*r + r - 1`` read kv head ``g``, with ``r = heads / kv_heads``.
    - With fewer queries than keys the queries are the last ones: ``Causal()`` is bottom-right.
    - A query that sees no key gets zeros, and passes no gradient, on every path.
    - ``bias`` is added to the scaled scores: a tensor, or a function that makes it for a block of queries.
    - ``sinks``, a logit for each head or for each of its queries, take part in the softmax and are no key:
      weights then add up to less than 1. Xiao et al. 2023, arXiv 2309.17453; a logit of 0 is the "softmax
      plus one", minus infinity no sink, and plus infinity leaves the keys nothing. Softcap and bias do not
      touch them.
    - ``dropout`` always applies: a layer passes 0 in evaluation.
    - ``value_bias`` makes what the output of a block of queries gains because a value depends on who reads
      it, ``sum_j p_ij a_ij``, from the weights after dropout.
    - ``score_change`` says the same ``bias`` for one score at a time: on a GPU FlexAttention then takes the
      place of blocks. That has not run on a GPU yet.

    Memory is O(query + key): what no fused kernel serves is computed in blocks of queries, in float32 or
    better, and computed again in the backward pass where keeping it would take much memory. Under autocast
    the fused kernels round float32 inputs as it says, while blocks keep what they are given.

    Raises HeadwiseError if ranks, dtypes or sizes do not fit each other.

    >>> from headwise.core import Causal
    >>> q = k = torch.eye(3).reshape(1, 1, 3, 3)
    >>> attention(q, k, v=torch.eye(3).reshape(1, 1, 3, 3), mask=Causal(), scale=2.0)[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.1192, 0.8808, 0.0000],
            [0.1065, 0.1065, 0.7870]])
    """
    if to_be_told():  # the whole call: what happens inside looks like other calls
        told: Tensor = handle_torch_function(
            attention,
            (),
            q,
            k,
            v,
            mask=mask,
            bias=bias,
            scale=scale,
            softcap=softcap,
            sinks=sinks,
            dropout=dropout,
            value_bias=value_bias,
            score_change=score_change,
        )
        return told
    check_inputs(q, k, v, mask=mask, bias=bias, softcap=softcap, dropout=dropout, scale=scale)
    queries, keys = q.shape[2], k.shape[2]
    scores = _scores(q, mask, bias, scale, softcap, sinks)
    # elsewhere these fall back to a kernel that builds the whole matrix
    kernel_fits = keys > 0 and kernel_can(q.shape[-1], v.shape[-1]) and (dropout == 0 or q.is_cuda)
    if bias is None and softcap is None and value_bias is None and kernel_fits:
        served = Fused() if mask is None else mask.fused(queries, keys)
        if served is not None:
            with nullcontext() if sinks is None else in_pieces():
                return _fused(q, k, v, served, scores, dropout)
    plain = dropout == 0 and softcap is None and sinks is None and value_bias is None
    if q.is_cuda and is_flexible(mask, bias, score_change, plain and takes(q, k, v)):
        return flexible_attention(q, k, v, mask=mask, score_change=score_change, scale=scores.scale)
    with in_pieces():
        return in_blocks(q, k, v, scores, dropout, value_bias)


def attention_weights(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    *,
    mask: Mask | None = None,
    bias: Float[Tensor, "#batch #heads query key"] | BiasFunction | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " heads"] | Float[Tensor, "#batch heads query"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """The probabilities ``P`` of ``attention``: dense, in float32 or better, O(query * key) memory.

    >>> from headwise.core import Causal
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> attention_weights(q, q, mask=Causal())[0, 0]
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    check_inputs(q, k, k, mask=mask, bias=bias, softcap=softcap, dropout=0.0, scale=scale)
    how = _scores(q, mask, bias, scale, softcap, sinks)
    queries, keys = q.shape[-2], k.shape[-2]
    return probabilities(q, k, how, Block((0, queries), (0, keys), keys - queries))


def _scores(
    q: Tensor,
    mask: Mask | None,
    bias: Tensor | BiasFunction | None,
    scale: float | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Scores:
    of_queries = sinks_of_queries(sinks, (q.shape[0], q.shape[1], q.shape[2]), who="attention")
    return Scores(mask, bias, q.shape[-1] ** -0.5 if scale is None else scale, softcap, of_queries)


def _fused(q: Tensor, k: Tensor, v: Tensor, served: Fused, how: Scores, dropout: float) -> Tensor:
    keep, empty = None, None
    if served.keep is not None:
        any_kept = served.keep.any(-1, keepdim=True)
        # kernels disagree on a row without keys, so none has one
        keep = (served.keep | ~any_kept)[:, None, None, :]
        empty = ~any_kept[:, None, None, :]
    output = fused_kernel(
        q, k, v, keep, scale=how.scale, causal=served.causal, dropout=dropout, sinks=how.sinks
    )
    return output if empty is None else output.masked_fill(empty, 0.0)
