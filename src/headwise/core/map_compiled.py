"""All usual statistics of a map by one compiled pass over its scores: in float32, on the processor."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.map_distance import edges_of
from headwise.core.map_inputs import check_classes
from headwise.core.map_pieces import ScoredRows
from headwise.core.map_products import product
from headwise.core.map_statistics import Received, Statistics, gathered, starts_of_bins

_FEWEST_SCORES = 2**18  # of a sentence a pass takes milliseconds, and to import numba takes half a second
_READINGS = 10  # of each row


@lru_cache(maxsize=1)
def rows_kernel() -> Callable[..., None] | None:
    """The compiled function, or None where numba is not installed or cannot be imported.

    >>> kernel = rows_kernel()
    >>> kernel is None or callable(kernel)
    True
    """
    try:
        from headwise.core.map_kernel import read_rows
    except ImportError:
        return None
    return read_rows


def can_be_compiled(scored: ScoredRows, sinks: Tensor | None, like: Tensor) -> bool:
    """Whether numba is installed, and these are scores that its function takes: finite, in place, and many.

    >>> from headwise.core.block import Scores
    >>> x = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    >>> can_be_compiled(ScoredRows(x, x, Scores(None, None, 1.0, None), None), None, like=x)
    False
    """
    here = like.device.type == "cpu" and like.dtype == torch.float32
    known = scored.bounded and (sinks is None or not bool(sinks.isnan().any()))
    return here and known and scored.count >= _FEWEST_SCORES and rows_kernel() is not None


def compiled_statistics_of(
    scored: ScoredRows,
    sinks: Float[Tensor, "batch heads query"] | None,
    shape: tuple[int, int, int, int],
    like: Float[Tensor, "batch heads rows"],
    keep: Bool[Tensor, "batch query"] | None,
    classes: Bool[Tensor, "classes key"] | None,
    bins: int,
) -> Statistics:
    """What ``statistics_of`` gives, in half of the time.

    On one thread: a second one gained nothing in a model whose own threads had just worked.

    >>> from headwise.core import AttentionMap, Causal
    >>> x = torch.zeros(1, 1, 512, 2)
    >>> AttentionMap(x, x, mask=Causal()).statistics().largest_weight[0, 0, :4]
    tensor([1.0000, 0.5000, 0.3333, 0.2500])
    """
    kernel = rows_kernel()
    assert kernel is not None
    _, _, queries, keys = shape
    batch, heads, rows = like.shape
    if classes is not None:
        check_classes(classes, keys)
    values = None if classes is None else classes.T.to(like)[None, None]
    table = like.new_empty(_READINGS, batch, heads, rows)
    on_classes = like.new_empty(batch, heads, rows, 0 if classes is None else len(classes))
    received, edges = Received(shape, like, bins), edges_of(queries, keys)
    histogram = like.new_zeros(batch, heads, len(edges) - 1, dtype=torch.float64)
    ends, key_bins = torch.tensor(edges), starts_of_bins(keys, received.key_bins)
    done, counted = 0, [(received.bin_of_query[:0], like.new_empty(batch, 0))]
    for some, columns, scores, ranges in scored.with_ranges():
        bin_of = received.bin_of_query.index_select(0, some)
        count = like.new_ones(batch, len(some)) if keep is None else keep[:, some].to(like)
        of_sinks = like[..., :0] if sinks is None else sinks.index_select(2, some)
        counts = count[:, None].expand(-1, heads, -1)
        of_matrices = (scores, of_sinks, counts, histogram, received.total, received.pooled)
        of_rows = (some + (keys - queries), *ranges, bin_of, ends, key_bins)
        kernel(
            *(x.flatten(0, 1).numpy() for x in of_matrices),
            table.flatten(1, 2).numpy(),
            done,
            *(x.numpy() for x in of_rows),
            columns.start,
            values is not None,
        )
        if values is not None:
            on_classes[:, :, done : done + len(some)] = product(scores, values[:, :, columns])
        counted.append((bin_of, count))
        done += len(some)
    bins_of_rows, counts_of_rows = (torch.cat(parts, dim=-1) for parts in zip(*counted, strict=True))
    received.counted.index_add_(1, bins_of_rows, counts_of_rows.double())
    return gathered(table, on_classes, received, histogram, edges)
