"""All usual statistics of a map in one pass over its pieces."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.map_distance import ByOffset, Distance, mean_and_spread
from headwise.core.map_inputs import check_classes
from headwise.core.map_pieces import Piece
from headwise.core.map_products import product
from headwise.core.map_runs import runs_of


class Statistics(NamedTuple):
    """What each query does, in the order the queries were asked for, and sums over them.

    ``on_self``, ``on_previous`` and ``on_next`` are diagonals from each query's own place among the keys, 0
    where there is no such key. ``received``, ``pool`` and ``distance.histogram`` count the kept queries.
    """

    entropy: Float[Tensor, "batch heads query"]
    largest_weight: Float[Tensor, "batch heads query"]
    largest_score: Float[Tensor, "batch heads query"]
    log_normalizer: Float[Tensor, "batch heads query"]
    on_self: Float[Tensor, "batch heads query"]
    on_previous: Float[Tensor, "batch heads query"]
    on_next: Float[Tensor, "batch heads query"]
    on_first: Float[Tensor, "batch heads query"]
    on_classes: Float[Tensor, "batch heads query classes"]
    received: Float[Tensor, "batch heads key"]
    pool: Float[Tensor, "batch heads query_bins key_bins"]
    distance: Distance


def statistics_of(
    pieces: Iterable[Piece],
    shape: tuple[int, int, int, int],
    like: Float[Tensor, "batch heads rows"],
    keep: Bool[Tensor, "batch query"] | None,
    classes: Bool[Tensor, "classes key"] | None,
    bins: int,
) -> Statistics:
    """Every statistic of as many rows as ``like`` has, from one pass; what ``keep`` leaves out is in no sum.

    >>> from headwise.core import AttentionMap, Causal
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> AttentionMap(x, x, mask=Causal()).statistics().on_first[0, 0]
    tensor([1.0000, 0.5000, 0.3333, 0.2500])
    """
    _, _, queries, keys = shape
    batch, heads, rows = like.shape
    table = like.new_empty(10, batch, heads, rows)  # small tensors between large ones would scatter memory
    if classes is not None:
        check_classes(classes, keys)
    values = like.new_zeros(keys, 0) if classes is None else classes.T.to(like)
    on_classes = like.new_empty(batch, heads, rows, values.shape[1])
    offsets, received = ByOffset(shape, like), Received(shape, like, bins)
    done = 0
    for piece in pieces:
        count = None if keep is None else keep[:, piece.rows].to(like.dtype)
        here = slice(done, done + len(piece.rows))
        runs = runs_of(piece, keys - queries)
        readings = (*_of_rows(piece, keys - queries), *mean_and_spread(runs, piece.mass))
        for found, part in zip(table[..., here], readings, strict=True):
            found.copy_(part)
        on_classes[:, :, here] = product(piece.weights, values[None, None, piece.columns])
        done = here.stop
        offsets.add(piece, count)
        received.add(piece, count)
    return gathered(table, on_classes, received, *offsets.histogram())


def gathered(
    table: Float[Tensor, "readings batch heads rows"],
    on_classes: Float[Tensor, "batch heads rows classes"],
    received: Received,
    histogram: Float[Tensor, "batch heads bins"],
    edges: list[int],
) -> Statistics:
    """The statistics from a table of the rows' own, and from sums over the rows.

    >>> table, none = torch.ones(10, 1, 1, 2), torch.zeros(1, 1, 2, 0)
    >>> gathered(table, none, Received((1, 1, 2, 2), table, bins=1), torch.zeros(1, 1, 2), [0, 1, 2]).entropy
    tensor([[[1., 1.]]])
    """
    entropy, weight, score, normalizer, at_self, at_previous, at_next, at_first, mean, spread = table
    average = (histogram / received.counted.sum(-1).clamp(min=1)[:, None, None]).to(table.dtype)
    return Statistics(
        entropy,
        weight,
        score,
        normalizer,
        at_self,
        at_previous,
        at_next,
        at_first,
        on_classes,
        received.total.to(table.dtype),
        received.pool(),
        Distance(mean, spread, average, edges),
    )


class Received:
    """What each key gets from each bin of queries: column sums, and with keys in bins the overview."""

    def __init__(self, shape: tuple[int, int, int, int], like: Tensor, bins: int) -> None:
        batch, heads, self.queries, self.keys = shape
        self.bins, self.key_bins = min(bins, self.queries), min(bins, self.keys)
        self.bin_of_query = bin_of(self.queries, self.bins, like.device)
        self.total = like.new_zeros(batch, heads, self.keys, dtype=torch.float64)
        self.pooled = like.new_zeros(batch, heads, self.bins, self.key_bins, dtype=torch.float64)
        self.counted = like.new_zeros(batch, self.bins, dtype=torch.float64)
        self.like = like

    @cached_property
    def in_bin(self) -> Float[Tensor, "key key_bins"]:
        """Which bin each key is in, as numbers to multiply by."""
        bins = torch.arange(self.key_bins, device=self.like.device)
        return (bin_of(self.keys, self.key_bins, self.like.device)[:, None] == bins).to(self.like.dtype)

    def add(self, piece: Piece, count: Float[Tensor, "batch rows"] | None) -> None:
        """Add the rows of a piece: one product for all sums, since a piece has rows of few bins."""
        bins = self.bin_of_query[piece.rows]
        first, last = (int(end) for end in bins.aminmax())
        choice = torch.arange(first, last + 1, device=bins.device)[:, None] == bins
        counts = choice.to(piece.weights.dtype)[None, None]
        counts = counts if count is None else counts * count[:, None, None]
        with without_autocast(piece.weights.device):
            given = counts.expand(*piece.weights.shape[:2], -1, -1) @ piece.weights
        self.total[..., piece.columns] += given.sum(2)
        # adding key by key takes longer
        self.pooled[:, :, first : last + 1] += product(given, self.in_bin[None, None, piece.columns])
        self.counted[:, first : last + 1] += counts.sum(-1)[:, 0]

    def pool(self) -> Float[Tensor, "batch heads query_bins key_bins"]:
        """What the average counted query of each bin gives to each bin of keys; 0 in a bin without any."""
        return (self.pooled / self.counted.clamp(min=1)[:, None, :, None]).to(self.like.dtype)


def received_by(
    pieces: Iterable[Piece], shape: tuple[int, int, int, int], like: Tensor, bins: int
) -> Received:
    """What the keys of a map get from all its queries.

    >>> from headwise.core import AttentionMap, Causal
    >>> x = torch.zeros(1, 1, 2, 2)
    >>> received_by(AttentionMap(x, x, mask=Causal()).pieces(), (1, 1, 2, 2), x[:, :, :0, 0], bins=2).pool()
    tensor([[[[1.0000, 0.0000],
              [0.5000, 0.5000]]]])
    """
    received = Received(shape, like, bins)
    for piece in pieces:
        received.add(piece, None)
    return received


def bin_of(length: int, bins: int, device: torch.device) -> Tensor:
    """The bin of each place: runs of nearly equal length, the same as in a picture scaled down.

    >>> bin_of(5, 2, torch.device("cpu"))
    tensor([0, 0, 0, 1, 1])
    """
    return torch.arange(length, device=device) * bins // max(1, length)


def starts_of_bins(length: int, bins: int) -> Tensor:
    """The first place of each bin, and the end of the last.

    >>> starts_of_bins(5, 2)
    tensor([0, 3, 5])
    """
    return -(torch.arange(bins + 1) * -length // max(1, bins))


def _of_rows(piece: Piece, first_slot: int) -> tuple[Tensor, ...]:
    first = piece.columns.start == 0 and piece.weights.shape[-1] > 0
    on_first = piece.weights[..., 0].clone() if first else torch.zeros_like(piece.mass)
    largest = (piece.largest_weight, piece.largest_score)
    beside = _beside(piece, first_slot)
    return piece.entropy, *largest, piece.log_normalizer, *beside, on_first


def _beside(piece: Piece, first_slot: int) -> tuple[Tensor, ...]:
    """The weights on each query's own place, the one before and the one after, 0 where there is none."""
    width = piece.weights.shape[-1]
    if not width:
        return (torch.zeros_like(piece.mass),) * 3
    own = piece.rows + (first_slot - piece.columns.start)
    places = torch.stack([own, own - 1, own + 1])
    starts = torch.arange(len(own), device=own.device) * width
    # to index by two tensors would take three times as long
    found = piece.weights.flatten(2).index_select(2, (starts + places.clamp(0, width - 1)).flatten())
    found = found.view(*found.shape[:2], *places.shape)
    return found.masked_fill_((places < 0) | (places >= width), 0.0).unbind(2)
