"""Reads a call without padding into sums: the statistics of its attention map, for each head."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.map_statistics import Statistics
from headwise.look.calls.call import AttentionCall
from headwise.look.recordings.documents import seen_by
from headwise.look.recordings.sums import BINS, DISTANCES, Sums, of_rows


def read_call(
    call: AttentionCall,
    rows: Int[Tensor, " rows"] | None,
    special: Bool[Tensor, " key"] | None,
    *,
    itself: bool,
    before: int = 0,
) -> Sums:
    """The sums of one call whose tokens are all real, over all its queries or those of ``rows``.

    ``itself`` says whether queries and keys are the same text; if not, no query has a place among the keys,
    so there are no distances and no previous token. ``before`` is how many tokens of the text come before the
    first key.

    >>> x = torch.zeros(1, 1, 3, 4)
    >>> call = AttentionCall(x, x, x, x, scale=1.0, causal="upper left")
    >>> read_call(call, None, None, itself=True).mean("first")
    tensor([0.6111], dtype=torch.float64)
    """
    queries, keys = call.q.shape[2], call.k.shape[2]
    places = torch.arange(queries, device=call.q.device) if rows is None else rows.to(call.q.device)
    classes = None if special is None else special[None]
    found = call.map().statistics(queries=rows, classes=classes, bins=BINS)
    times = queries / len(places)
    sums = Sums.empty(call.heads)
    if before:
        found = found._replace(on_first=torch.zeros_like(found.on_first))
    _add_rows(sums, found, places + keys - queries, queries, keys, itself)
    sums.largest_score = found.largest_score.double().amax((0, 2)).cpu()
    received = times * found.received.double().sum(0).cpu()
    could = times * seen_by(call, places).sum(0).cpu()
    sums.received, sums.could = (torch.nn.functional.pad(x, (before, 0)) for x in (received, could))
    first = before + keys - queries if itself else 0
    _add_overview(sums, found.pool, places, (first, queries), (before, keys), times)
    if itself:
        histogram = found.distance.histogram.double().sum(0) * len(places) * times
        sums.distances[:, : histogram.shape[1]] += histogram.cpu()[:, :DISTANCES]
    return sums


def _add_rows(sums: Sums, found: Statistics, slots: Tensor, queries: int, keys: int, itself: bool) -> None:
    sees = ~found.largest_score.isneginf()  # a normalizer counts sinks, too
    placed = sees & itself
    special = found.on_classes.shape[-1] > 0
    values = torch.stack(
        [
            found.entropy,
            found.largest_weight,
            found.distance.mean,
            found.distance.spread,
            found.on_self,
            found.on_previous,
            found.on_next,
            found.on_first,
            found.on_classes[..., 0] if special else found.entropy,
        ]
    )
    counts = torch.stack(
        [
            sees,
            sees,
            placed,
            placed,
            placed & (slots >= 0),
            placed & (slots >= 1),
            placed & (slots + 1 < keys),
            sees,
            sees & special,
        ]
    )
    parts = of_rows(values, counts, queries)
    for whole, part in zip(
        (sums.rows, sums.read, sums.total, sums.squares, sums.variance), parts, strict=True
    ):
        whole += part.cpu()


def _add_overview(
    sums: Sums, pool: Tensor, places: Tensor, rows: tuple[int, int], keys: tuple[int, int], times: float
) -> None:
    """A picture of a shorter text is spread out over the 64 parts, so that texts of any length add.

    ``rows`` and ``keys`` say where in the text the first one is, and how many there are.
    """
    batch, heads, row_bins, key_bins = pool.shape
    counted = (torch.bincount(places.cpu() * row_bins // rows[1], minlength=row_bins) * times).double()
    mass = (pool.double().sum(0).cpu() * counted[:, None]).flatten(1)
    of_rows, of_keys = _parts(*rows, row_bins), _parts(*keys, key_bins)
    cells = (of_rows[:, None] * BINS + of_keys).flatten()
    sums.overview.view(heads, -1).index_add_(1, cells, mass)
    sums.overview_rows.index_add_(0, of_rows, batch * counted)


def _parts(first: int, count: int, bins: int) -> Tensor:
    """The part of the text in which the first place of each bin is."""
    starts = first - torch.arange(bins) * -count // bins  # rounded up: bin b begins at the next whole place
    return starts * BINS // (first + count)
