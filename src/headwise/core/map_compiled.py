"""All usual statistics of a map by one compiled pass over its scores: in float32, on the processor."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.map_distance import edges_of
from headwise.core.map_inputs import check_classes
from headwise.core.map_kernel import READINGS, rows_kernel
from headwise.core.map_pieces import ScoredRows
from headwise.core.map_products import product
from headwise.core.map_statistics import Received, Statistics, gathered, starts_of_bins


def can_be_compiled(scored: ScoredRows, like: Tensor) -> bool:
    """Whether numba is installed, and these are scores that its function takes: finite, and in place.

    >>> from headwise.core.block import Scores
    >>> x = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    >>> can_be_compiled(ScoredRows(x, x, Scores(None, None, 1.0, None), None), like=x)
    False
    """
    here = like.device.type == "cpu" and like.dtype == torch.float32
    return here and scored.bounded and rows_kernel() is not None


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
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> AttentionMap(x, x, mask=Causal()).statistics().largest_weight[0, 0]
    tensor([1.0000, 0.5000, 0.3333, 0.2500])
    """
    kernel = rows_kernel()
    assert kernel is not None
    _, _, queries, keys = shape
    batch, heads, rows = like.shape
    if classes is not None:
        check_classes(classes, keys)
    values = None if classes is None else classes.T.to(like)[None, None]
    table = like.new_empty(READINGS, batch, heads, rows)
    on_classes = like.new_empty(batch, heads, rows, 0 if classes is None else len(classes))
    received, edges = Received(shape, like, bins), edges_of(queries, keys)
    histogram = like.new_zeros(batch, heads, len(edges) - 1, dtype=torch.float64)
    ends, key_bins = torch.tensor(edges), starts_of_bins(keys, received.key_bins)
    done = 0
    for some, columns, scores in scored:
        here, bin_of = slice(done, done + len(some)), received.bin_of_query[some]
        count = like.new_ones(batch, len(some)) if keep is None else keep[:, some].to(like)
        found = like.new_empty(batch, heads, len(some), READINGS)
        of_sinks = like[..., :0] if sinks is None else sinks.index_select(2, some)
        counts = count[:, None].expand(-1, heads, -1)
        of_matrices = (scores, of_sinks, counts, found, histogram, received.total, received.pooled)
        places = some + (keys - queries)
        kernel(
            *(x.flatten(0, 1).numpy() for x in of_matrices),
            *(x.numpy() for x in (places, bin_of, ends, key_bins)),
            columns.start,
            values is not None,
        )
        table[..., here] = found.permute(3, 0, 1, 2)
        if values is not None:
            on_classes[:, :, here] = product(scores, values[:, :, columns])
        received.counted.index_add_(1, bin_of, count.double())
        done = here.stop
    return gathered(table, on_classes, received, histogram, edges)
