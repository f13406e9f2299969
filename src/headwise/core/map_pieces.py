"""Pieces of an attention map: whole rows of probabilities, a block at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.block import Block, Scores
from headwise.core.blocks import capped_and_biased, wide

_PIECE_ELEMENTS = 2**20  # 4 MiB in float32: measured faster than half and than twice of it
_PIECE_ELEMENTS_CUDA = 2**26
_CACHED_ELEMENTS = 2**17
_FEWEST_ROWS = 16
_EDGE = 64  # columns begin and end at multiples of it, which readings that go by runs of keys like


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
        at_once = len(rows) if rows.is_cuda else max(1, _CACHED_ELEMENTS // max(1, rows.shape[1]))
        parts = rows.split(max(1, at_once))  # what is made on the way stays in the cache
        sums = [part.clamp(min=tiny).log_().mul_(part).sum(-1) for part in parts]
        return 0.0 - torch.cat(sums).view_as(self.mass)


@torch.no_grad()
def pieces_of(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    how: Scores,
    sinks: Float[Tensor, "batch heads query"] | None,
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
    products = _Products(k, how.scale)
    for some in torch.split(rows, step):
        if not len(some):
            continue
        first, last = int(some.min()), int(some.max())
        where = slice(first, last + 1) if queries is None or is_run(some) else some  # a slice makes no copy
        block = Block(where, _reach(how, first_slot + first, first_slot + last, keys), first_slot)
        visible = block.visible(how.mask, q.device)
        of_rows = q[:, :, where]
        bias = block.bias(of_rows, k[:, :, block.columns], how, visible)
        scores = capped_and_biased(products.of(of_rows, block.columns), how.softcap, bias)
        _hide(scores, visible, biased=bias is not None)
        yield _piece(some, block.columns, scores, None if sinks is None else sinks[:, :, where])


def is_run(rows: Int[Tensor, " rows"]) -> bool:
    """Whether each row is the one after that before it.

    >>> is_run(torch.tensor([3, 4, 5])), is_run(torch.tensor([3, 5]))
    (True, False)
    """
    return bool((rows.diff() == 1).all())


class _Products:
    """``scale * Q K^T`` of one block after another, each in the memory of the one before."""

    def __init__(self, k: Tensor, scale: float) -> None:
        self.scale = scale
        self.keys = wide(k).mT.flatten(0, 1).contiguous()  # of this layout the product is quicker
        self.buffer = self.keys.new_empty(0)

    def of(self, q: Tensor, columns: slice) -> Tensor:
        batch, heads, rows, inner = q.shape
        shared = batch * heads * rows // max(1, len(self.keys))  # rows of the heads that share keys
        grouped = (wide(q) * self.scale).reshape(len(self.keys), shared, inner)
        shape = (len(self.keys), shared, columns.stop - columns.start)
        if self.buffer.numel() < math.prod(shape):
            self.buffer = self.keys.new_empty(math.prod(shape))
        product = self.buffer[: math.prod(shape)].view(shape)
        with without_autocast(q.device):
            torch.bmm(grouped, self.keys[..., columns], out=product)
        return product.view(batch, heads, rows, shape[-1])


def _reach(how: Scores, first_slot: int, last_slot: int, keys: int) -> slice:
    if how.mask is None:
        return slice(0, keys)
    start, stop = how.mask.reach(first_slot, last_slot, keys)
    if start < stop:
        start, stop = start // _EDGE * _EDGE, min(-(-stop // _EDGE) * _EDGE, keys)
    return slice(start, stop)


def _hide(scores: Tensor, visible: Tensor | None, biased: bool) -> None:
    """Set what is hidden to the lowest finite number, of which a row may hold nothing else."""
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
        lowest = scores.new_full((*scores.shape[:-1], 1), torch.finfo(scores.dtype).min)
        piece = _piece(rows, columns, lowest, sinks)
        return replace(piece, weights=scores)
    largest = scores.amax(-1)
    weights = scores.softmax(-1)
    empty = largest <= torch.finfo(scores.dtype).min
    largest_weight = weights.amax(-1)
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
