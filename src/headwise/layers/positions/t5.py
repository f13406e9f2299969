"""A learned number for each range of distances: near ones alone, far ones together."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads, differences, looked_up
from headwise.layers.positions.encoding import PositionalEncoding


class T5Bias(PositionalEncoding):
    """``bias_h(i, j) = table[bucket(p_i - p_j), h]``: near distances have a bucket each, far ones share.

    Each side of the query has ``side`` buckets: all of them where only keys before the query count, half of
    them if ``bidirectional``. Distances below ``exact = side // 2`` have a bucket each; distance n has bucket
    ``exact + floor((side - exact) * log(n / exact) / log(max_distance / exact))``, and from ``max_distance``
    on the last. In the one-sided form every key after the query shares bucket 0. Where ranges begin
    (``starts``) is worked out in whole numbers, so no logarithm is rounded. Raffel et al. 2019, arXiv
    1910.10683, section 2.1; the constants and the logarithm are from the authors' code.

    T5 does not divide its scores by ``sqrt(head_dim)``: a layer that carries T5's weights needs
    ``scale=1.0``, since the table is added to the scores as they are. T5 and MPNet have one table for all
    layers: give each layer the same T5Bias. T5 adds none in cross-attention.

    Args:
        heads: number of query heads.
        buckets: rows of the table.
        max_distance: from here on all distances share a bucket.
        bidirectional: whether keys after the query have buckets of their own, as in an encoder.
        std: deviation of the normal distribution the table starts from.

    Raises HeadwiseError if there are too few buckets, or if max_distance leaves no range for them.

    >>> T5Bias(heads=8).starts
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
    >>> T5Bias(heads=8).bucket(torch.tensor([0, 1, 8, 20, 127, 1000, -1, -8]))
    tensor([ 0,  1,  8, 10, 15, 15, 17, 24])
    >>> T5Bias(heads=8, bidirectional=False).bucket(torch.tensor([0, 1, 8, 20, 127, 1000, -1, -8]))
    tensor([ 0,  1,  8, 17, 31, 31,  0,  0])
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Raffel et al. 2019, arXiv 1910.10683, section 2.1"
    per_head = (("table", 1),)

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        for value, what in ((heads, "heads"), (buckets, "buckets"), (max_distance, "max_distance")):
            check_positive(value, who="T5Bias", what=what)
        _check_sizes(buckets, max_distance, bidirectional)
        self.heads, self.buckets, self.max_distance = heads, buckets, max_distance
        self.bidirectional, self.std = bidirectional, std
        self.starts = _starts(self.side, max_distance)
        self.table = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.std)

    @property
    def side(self) -> int:
        """Buckets of one side of the query."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    def bucket(self, difference: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The row of the table for each ``p_i - p_j``."""
        starts = torch.tensor(self.starts[1:], device=difference.device, dtype=difference.dtype)
        if not self.bidirectional:
            return torch.bucketize(difference.clamp(min=0), starts, right=True)
        return torch.bucketize(difference.abs(), starts, right=True) + self.side * (difference < 0)

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="T5Bias")
        rows = self.bucket(differences(query_positions, key_positions))
        return looked_up(self.table, rows, torch.promote_types(q.dtype, torch.float32))

    def extra_repr(self) -> str:
        direction = f"bidirectional={self.bidirectional}"
        return f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}, {direction}"


def _starts(side: int, max_distance: int) -> tuple[int, ...]:
    """The first distance of each bucket of one side."""
    exact = side // 2
    ranges = side - exact
    return (*range(exact), *(_range_start(exact, max_distance, ranges, k) for k in range(ranges)))


def _range_start(exact: int, furthest: int, ranges: int, k: int) -> int:
    """The smallest n with ``(n / exact)^ranges >= (furthest / exact)^k``, without a division."""
    target = exact ** (ranges - k) * furthest**k
    low, high = exact, furthest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**ranges >= target else (middle + 1, high)
    return low


def _check_sizes(buckets: int, max_distance: int, bidirectional: bool) -> None:
    least = 4 if bidirectional else 2
    if buckets < least:
        raise HeadwiseError(
            who="T5Bias",
            what="buckets",
            expected=f"at least {least}" + (" where both directions count" if bidirectional else ""),
            got=str(buckets),
            why="Half of a side's buckets hold one distance each, the others a range",
            do="Use 32, as T5 does",
        )
    exact = (buckets // 2 if bidirectional else buckets) // 2
    if max_distance <= exact:
        raise HeadwiseError(
            who="T5Bias",
            what="max_distance",
            expected=f"more than {exact}",
            got=str(max_distance),
            why=f"Distances below {exact} have a bucket each, and the others share ranges up to it",
            do="Use 128, as T5 does, or fewer buckets",
        )
