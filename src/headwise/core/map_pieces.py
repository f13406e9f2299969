"""Pieces of an attention map: whole rows of probabilities, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.block import Scores
from headwise.core.map_scores import MapScores, Memory

_PIECE_ELEMENTS = 2**22  # 16 MiB in float32: measured faster than half of it, at 2,048 keys and at 8,192
_CACHED_ELEMENTS = 2**18  # of the scores that several operations pass over one after the other
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
    entropy: Float[Tensor, "batch heads rows"]
    """``- sum_j p_ij log p_ij``, where 0 log 0 is 0."""


class ScoredRows:
    """The scores of all rows in order, or of those that ``queries`` names, some rows at a time.

    >>> x, how = torch.zeros(1, 1, 3, 2), Scores(None, None, 1.0, None)
    >>> [scores.shape for _, _, scores in ScoredRows(x, x, how, None)]
    [torch.Size([1, 1, 3, 3])]
    """

    def __init__(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        how: Scores,
        queries: Int[Tensor, " rows"] | None,
    ) -> None:
        self._rows = (
            torch.arange(q.shape[2], device=q.device) if queries is None else queries.to(q.device).long()
        )
        matrices, keys = q.shape[0] * q.shape[1], k.shape[2]
        self._most = (_PIECE_ELEMENTS_CUDA if q.is_cuda else _PIECE_ELEMENTS) // max(1, matrices)
        self.largest = matrices * min(len(self._rows) * keys, max(self._most, _FEWEST_ROWS * keys))
        self._made = MapScores(q, k, how, self._rows, self.largest)
        self.bounded = self._made.bounded
        self.count = matrices * len(self._rows) * keys

    @torch.no_grad()
    def __iter__(self) -> Iterator[tuple[Tensor, slice, Tensor]]:
        for some in _split(self._rows, self._made, self._most):
            # whoever watches a model must not take this for its attention
            with torch._C.DisableTorchFunction():
                block, scores = self._made.of(some)
            yield some, block.columns, scores

    @torch.no_grad()
    def with_ranges(self) -> Iterator[tuple[Tensor, slice, Tensor, tuple[Tensor, Tensor]]]:
        """The same, and the range of keys to read in each row: what it leaves out may be anything."""
        for some in _split(self._rows, self._made, self._most):
            with torch._C.DisableTorchFunction():
                block, scores, ranges = self._made.in_ranges(some)
            yield some, block.columns, scores, ranges


@torch.no_grad()
def pieces_of(
    scored: ScoredRows, sinks: Float[Tensor, "batch heads query"] | None, *, reuse: bool
) -> Iterator[Piece]:
    """The rows as pieces of the map.

    With ``reuse`` the weights of a piece are good until the next is asked for: all share their memory.

    >>> x, how = torch.zeros(1, 1, 3, 2), Scores(None, None, 1.0, None)
    >>> [piece.weights.shape for piece in pieces_of(ScoredRows(x, x, how, None), None, reuse=False)]
    [torch.Size([1, 1, 3, 3])]
    """
    memory: Memory | None = None
    for rows, columns, scores in scored:
        if reuse and memory is None:
            memory = Memory(scores, scored.largest)
        weights = torch.empty_like(scores) if memory is None else memory.of(scores.shape)
        of_sinks = None if sinks is None else sinks.index_select(2, rows)
        yield _piece(rows, columns, scores, weights, of_sinks, bounded=scored.bounded)


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


def _piece(
    rows: Tensor, columns: slice, scores: Tensor, weights: Tensor, sinks: Tensor | None, *, bounded: bool
) -> Piece:
    """A piece of those scores, whose memory is used up; the weights are written into ``weights``."""
    lowest = torch.finfo(scores.dtype).min
    if not scores.shape[-1]:
        none = scores.new_full((*scores.shape[:-1], 1), lowest)
        return replace(_piece(rows, columns, none, none.clone(), sinks, bounded=True), weights=weights)
    largest, largest_weight, apart = _softmax(scores, weights, bounded=bounded)
    empty = largest <= lowest
    log_normalizer = (largest - largest_weight.log()).masked_fill_(empty, -torch.inf)
    mass = torch.ones_like(largest).masked_fill_(empty, 0.0)
    entropy = apart - largest_weight.log()
    if sinks is not None:
        of_keys = log_normalizer
        log_normalizer = torch.logaddexp(of_keys, sinks)
        mass = (of_keys - log_normalizer).exp().masked_fill_(empty, 0.0)
        weights *= mass[..., None]
        entropy = entropy * mass - torch.special.xlogy(mass, mass)
    if empty.any():
        weights.masked_fill_(empty[..., None], 0.0)
        entropy, largest = entropy.masked_fill(empty, 0.0), largest.masked_fill(empty, -torch.inf)
    return Piece(rows, columns, weights, largest, largest_weight * mass, log_normalizer, mass, entropy)


def _softmax(scores: Tensor, weights: Tensor, *, bounded: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Writes the softmax into ``weights``; returns each row's ``max_j s_j``, ``max_j p_j`` and
    ``sum_j p_j (max_i s_i - s_j)``.

    As ``log p_j = s_j - max_i s_i + log max_i p_i``, the entropy needs no logarithm of each weight.
    """
    several = scores.shape[:-1].numel() if scores.is_cuda else max(1, _CACHED_ELEMENTS // scores.shape[-1])
    lowest = torch.finfo(scores.dtype).min
    found = []
    parts = (torch.split(x.flatten(0, -2), several) for x in (scores, weights))
    for some, out in zip(*parts, strict=True):
        largest = some.amax(-1, keepdim=True)
        torch.softmax(some, -1, out=out)
        some -= largest
        if not bounded:
            some.clamp_(min=lowest)  # from a very large number even the lowest differs by infinity
        found.append(torch.cat([largest, out.amax(-1, keepdim=True), some.mul_(out).sum(-1, True)], dim=-1))
    largest, largest_weight, apart = torch.cat(found).view(*scores.shape[:-1], 3).unbind(-1)
    return largest, largest_weight, apart.neg()
