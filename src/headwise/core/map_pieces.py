"""Pieces of an attention map: whole rows of probabilities, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.block import Scores
from headwise.core.map_scores import MapScores, Memory

_PIECE_ELEMENTS = 2**21  # 8 MiB in float32: measured faster than half of it at 8,192 keys, no slower at 2,048
_CACHED_ELEMENTS = 2**17  # what passes over a piece take at once
_FEWEST_ROWS, _MOST_ROWS = 16, 128
_PIECE_ELEMENTS_CUDA, _MOST_ROWS_CUDA = 2**26, 1024


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of the map, over the columns that they can reach; every other column is zero there.

    In a row that sees nothing ``log_normalizer`` and ``largest_score`` are minus infinity.
    """

    rows: Int[Tensor, " rows"]
    columns: slice
    weights: Float[Tensor, "batch heads rows columns"]
    largest_score: Float[Tensor, "batch heads rows"]
    largest_weight: Float[Tensor, "batch heads rows"]
    log_normalizer: Float[Tensor, "batch heads rows"]
    mass: Float[Tensor, "batch heads rows"]
    """What a row adds up to: 1, or less with sinks, or 0 if it sees nothing."""

    def entropy(self) -> Float[Tensor, "batch heads rows"]:
        """``- sum_j p_ij log p_ij``, where 0 log 0 is 0."""
        rows, tiny = self.weights.flatten(0, 2), torch.finfo(self.weights.dtype).tiny
        at_once = len(rows) if rows.is_cuda else _CACHED_ELEMENTS // max(1, rows.shape[1])
        sums = [part.clamp(min=tiny).log_().mul_(part).sum(-1) for part in torch.split(rows, max(1, at_once))]
        return 0.0 - torch.cat(sums).view_as(self.mass)


@torch.no_grad()
def pieces_of(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    how: Scores,
    sinks: Float[Tensor, "batch heads query"] | None,
    queries: Int[Tensor, " rows"] | None,
    *,
    reuse: bool,
) -> Iterator[Piece]:
    """All rows in order, or those that ``queries`` names.

    With ``reuse`` the weights of a piece are good until the next is asked for: all share their memory.

    >>> x, how = torch.zeros(1, 1, 3, 2), Scores(None, None, 1.0, None)
    >>> [piece.weights.shape for piece in pieces_of(x, x, how, None, None, reuse=False)]
    [torch.Size([1, 1, 3, 3])]
    """
    rows = torch.arange(q.shape[2], device=q.device) if queries is None else queries.to(q.device).long()
    matrices, keys = q.shape[0] * q.shape[1], k.shape[2]
    most = (_PIECE_ELEMENTS_CUDA if q.is_cuda else _PIECE_ELEMENTS) // max(1, matrices)
    largest = matrices * min(len(rows) * keys, max(most, _FEWEST_ROWS * keys))
    made = MapScores(q, k, how, len(rows), largest)
    memory = Memory(made.wide_keys, largest) if reuse else None
    for some in _split(rows, made, most):
        with torch._C.DisableTorchFunction():  # whoever watches a model must not take this for its attention
            block, scores = made.of(some)
        weights = scores.softmax(-1) if memory is None else _softmax(scores, memory)
        of_sinks = None if sinks is None else sinks[:, :, block.rows]
        yield _piece(some, block.columns, scores, weights, of_sinks)


def _split(rows: Tensor, made: MapScores, most: int) -> Iterator[Tensor]:
    """The rows in order, as many at a time as fit with the keys they reach, by halving."""
    most_rows = _MOST_ROWS_CUDA if rows.is_cuda else _MOST_ROWS
    numbers, done = rows.tolist(), 0
    while done < len(numbers):
        some = numbers[done : done + most_rows]
        while len(some) > _FEWEST_ROWS:
            columns = made.reach(min(some), max(some))
            if len(some) * (columns.stop - columns.start) <= most:
                break
            some = some[: max(_FEWEST_ROWS, len(some) // 2)]
        yield rows[done : done + len(some)]
        done += len(some)


def _softmax(scores: Tensor, memory: Memory) -> Tensor:
    return torch.softmax(scores, -1, out=memory.of(scores.shape))


def _piece(rows: Tensor, columns: slice, scores: Tensor, weights: Tensor, sinks: Tensor | None) -> Piece:
    lowest = torch.finfo(scores.dtype).min
    if not scores.shape[-1]:
        none = scores.new_full((*scores.shape[:-1], 1), lowest)
        return replace(_piece(rows, columns, none, none.softmax(-1), sinks), weights=weights)
    largest, largest_weight = scores.amax(-1), weights.amax(-1)
    empty = largest <= lowest
    log_normalizer = (largest - largest_weight.log()).masked_fill_(empty, -torch.inf)
    mass = torch.ones_like(largest).masked_fill_(empty, 0.0)
    if sinks is not None:
        of_keys = log_normalizer
        log_normalizer = torch.logaddexp(of_keys, sinks)
        mass = (of_keys - log_normalizer).exp().masked_fill_(empty, 0.0)
        weights *= mass[..., None]
    elif empty.any():
        weights.masked_fill_(empty[..., None], 0.0)
    largest = largest.masked_fill(empty, -torch.inf)
    return Piece(rows, columns, weights, largest, largest_weight * mass, log_normalizer, mass)
