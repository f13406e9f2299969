"""Pieces of an attention map: whole rows of probabilities, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.block import Block, Scores
from headwise.core.blocks import masked_scores

_PIECE_ELEMENTS = 2**21  # 8 MiB in float32, which caches hold
_PIECE_ELEMENTS_CUDA = 2**26
_FEWEST_ROWS = 16


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of the map, over the columns that they can reach; every other column is zero there.

    ``log_weights`` are minus infinity where nothing is seen, ``log_normalizer`` in a row that sees nothing.
    """

    rows: Int[Tensor, " rows"]
    columns: slice
    log_weights: Float[Tensor, "batch heads rows columns"]
    weights: Float[Tensor, "batch heads rows columns"]
    log_normalizer: Float[Tensor, "batch heads rows"]


@torch.no_grad()
def pieces_of(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    how: Scores,
    sinks: Float[Tensor, " heads"] | None,
    queries: Int[Tensor, " rows"] | None,
) -> Iterator[Piece]:
    """All rows in order, or those that ``queries`` names.

    >>> x = torch.zeros(1, 1, 3, 2)
    >>> [piece.weights.shape for piece in pieces_of(x, x, Scores(None, None, 1.0, None), None, None)]
    [torch.Size([1, 1, 3, 3])]
    """
    keys, first_slot = k.shape[2], k.shape[2] - q.shape[2]
    rows = torch.arange(q.shape[2], device=q.device) if queries is None else queries
    most = _PIECE_ELEMENTS_CUDA if q.is_cuda else _PIECE_ELEMENTS
    step = max(_FEWEST_ROWS, most // max(1, q.shape[0] * q.shape[1] * keys))
    for some in torch.split(rows, step):
        if not len(some):
            continue
        start, stop = 0, keys
        if how.mask is not None:
            start, stop = how.mask.reach(first_slot + int(some.min()), first_slot + int(some.max()), keys)
        contiguous = queries is None  # a slice is a view, an index a copy
        where = slice(int(some[0]), int(some[-1]) + 1) if contiguous else some
        block = Block(where, slice(start, stop), first_slot)
        scores = masked_scores(q[:, :, where], k[:, :, start:stop], how, block)
        yield _piece(some, block.columns, scores, sinks)


def _piece(rows: Tensor, columns: slice, scores: Tensor, sinks: Tensor | None) -> Piece:
    log_normalizer = scores.logsumexp(-1)
    if sinks is not None:
        log_normalizer = torch.logaddexp(log_normalizer, sinks.to(scores.dtype)[:, None])
    empty = log_normalizer.isneginf()[..., None]
    log_weights = scores.sub_(log_normalizer.masked_fill(empty[..., 0], 0.0)[..., None])
    return Piece(rows, columns, log_weights, log_weights.exp(), log_normalizer)
