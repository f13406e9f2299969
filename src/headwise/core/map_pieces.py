"""Pieces of an attention map: whole rows of probabilities, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.block import Block, Scores
from headwise.core.blocks import biased_scores

_PIECE_ELEMENTS = 2**20  # 4 MiB in float32: measured faster than half and than twice of it
_PIECE_ELEMENTS_CUDA = 2**26
_FEWEST_ROWS = 16


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of the map, over the columns that they can reach; every other column is zero there.

    A hidden score is the lowest finite number. In a row that sees nothing ``log_normalizer`` and
    ``largest_score`` are minus infinity.
    """

    rows: Int[Tensor, " rows"]
    columns: slice
    scores: Float[Tensor, "batch heads rows columns"]
    weights: Float[Tensor, "batch heads rows columns"]
    largest_score: Float[Tensor, "batch heads rows"]
    largest_weight: Float[Tensor, "batch heads rows"]
    log_normalizer: Float[Tensor, "batch heads rows"]
    mass: Float[Tensor, "batch heads rows"]
    """What a row adds up to: 1, or less with sinks, or 0 if it sees nothing."""

    def entropy(self) -> Float[Tensor, "batch heads rows"]:
        """``- sum_j p_ij log p_ij = mass_i log_normalizer_i - sum_j p_ij S_ij``, in one pass."""
        with without_autocast(self.weights.device):  # a product of two rows is the quickest sum of products
            mean = torch.bmm(self.weights.flatten(0, 2)[:, None], self.scores.flatten(0, 2)[..., None])
        normalizer = self.log_normalizer.masked_fill(self.mass == 0, 0.0)
        return (self.mass * normalizer - mean.view_as(normalizer)).clamp_(min=0.0)


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
    rows = torch.arange(q.shape[2], device=q.device) if queries is None else queries.to(q.device).long()
    most = _PIECE_ELEMENTS_CUDA if q.is_cuda else _PIECE_ELEMENTS
    step = max(_FEWEST_ROWS, most // max(1, q.shape[0] * q.shape[1] * keys))
    for some in torch.split(rows, step):
        if not len(some):
            continue
        first, last = int(some.min()), int(some.max())
        start, stop = 0, keys
        if how.mask is not None:
            start, stop = how.mask.reach(first_slot + first, first_slot + last, keys)
        where = slice(first, last + 1) if queries is None or _is_run(some) else some  # a slice makes no copy
        block = Block(where, slice(start, stop), first_slot)
        visible = block.visible(how.mask, q.device)
        with torch._C.DisableTorchFunction():  # whoever watches a model must not take this for its attention
            scores = biased_scores(q[:, :, where], k[:, :, start:stop], how, block, visible)
        _hide(scores, visible, biased=how.bias is not None)
        yield _piece(some, block.columns, scores, sinks)


def _is_run(rows: Tensor) -> bool:
    return bool((rows.diff() == 1).all())


def _hide(scores: Tensor, visible: Tensor | None, biased: bool) -> None:
    """Set what is hidden to the lowest number, which unlike infinity may be multiplied by zero."""
    lowest = torch.finfo(scores.dtype).min
    if biased:
        scores.clamp_(min=lowest)  # a bias may hide by minus infinity
    if visible is None:
        return
    hidden = ~visible
    columns = hidden.flatten(0, -2).any(0).nonzero()  # in a causal block they are few
    if len(columns):
        some = slice(int(columns[0]), int(columns[-1]) + 1)
        scores[..., some].masked_fill_(hidden[..., some], lowest)


def _piece(rows: Tensor, columns: slice, scores: Tensor, sinks: Tensor | None) -> Piece:
    if not scores.shape[-1]:
        scores = scores.new_full((*scores.shape[:-1], 1), torch.finfo(scores.dtype).min)
        piece = _piece(rows, columns, scores, sinks)
        none = scores[..., :0]
        return Piece(
            rows,
            columns,
            none,
            none,
            piece.largest_score,
            piece.largest_weight,
            piece.log_normalizer,
            piece.mass,
        )
    largest, place = scores.max(-1)
    empty = largest <= torch.finfo(scores.dtype).min
    weights = scores.softmax(-1)
    largest_weight = weights.gather(-1, place[..., None])[..., 0]
    log_normalizer = (largest - largest_weight.log()).masked_fill_(empty, -torch.inf)
    mass = torch.ones_like(largest).masked_fill_(empty, 0.0)
    if sinks is not None:
        of_keys = log_normalizer
        log_normalizer = torch.logaddexp(of_keys, sinks.to(scores.dtype)[:, None])
        mass = (of_keys - log_normalizer).exp().masked_fill_(empty, 0.0)
        weights *= mass[..., None]
    elif empty.any():
        weights.masked_fill_(empty[..., None], 0.0)
    largest = largest.masked_fill(empty, -torch.inf)
    return Piece(rows, columns, scores, weights, largest, largest_weight * mass, log_normalizer, mass)
