"""Content and distance, each asking the other: the disentangled attention of DeBERTa."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.autocast import without_autocast
from headwise.core.blocks import wide
from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads, differences
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.tables import check_width, entries_read, read

_SCORES_AT_ONCE = 2**21  # of some keys with the rows of the table that a block of queries reads


class Rows(NamedTuple):
    """The table as queries meet it and as keys meet it, an entry in each column."""

    of_keys: Float[Tensor, "heads head_dim entries"]
    of_queries: Float[Tensor, "heads head_dim entries"]


class DeBERTa(PositionalEncoding):
    """``score(m, n) = (q_m . k_n + q_m . K[r] + k_n . Q[r]) / sqrt(3 head_dim)``, ``r = bucket(m - n)``.

    ``K`` and ``Q`` are projections of one table of distances, clipped to ``-span .. span - 1``. He et al.
    2020, arXiv 2006.03654, eqs. (2) to (4). The factor ``1 / sqrt(3)`` reaches the content score through
    ``content_scale``. The paper prints ``Q[bucket(n - m)]`` in the third term; the released code and weights
    read the row of ``m - n`` in both, and ``third_row`` chooses.

    With ``buckets`` (version 2 and 3, arXiv 2111.09543) distances up to ``mid = buckets // 2`` have a row
    each, and row ``mid + ceil((mid - 1) log(p / mid) / log((max_distance - 1) / mid))`` is for a longer
    distance p; ``span`` is then ``buckets``, otherwise ``max_distance``.

    Args:
        model_dim: width of the table.
        heads: query heads.
        head_dim: width of a head, ``model_dim / heads`` unless given.
        max_distance: beyond it all distances are alike.
        buckets: rows on each side of the table, if fewer.
        third_row: "released" or "printed".
        std: deviation of the normal distribution the table starts from.

    A model whose layers share the table gives each encoding the same parameter, ``one.table = other.table``;
    one that shares the projections too (version 3) sets ``position.key = layer.key`` and ``query`` likewise.
    Raises HeadwiseError if the layer's heads or widths do not fit, or for buckets that do not.

    >>> DeBERTa(16, heads=2, max_distance=512, buckets=32).bucket(torch.tensor([-3, 16, 17, 100, 511, 9999]))
    tensor([-3, 16, 17, 24, 31, 32])
    """

    acts_on = ("scores",)
    content_scale = 3**-0.5
    relative = True
    any_length = True
    cacheable = True
    source = "He et al. 2020, arXiv 2006.03654, eqs. (2) to (4)"
    per_head = (("query.weight", 0), ("query.bias", 0), ("key.weight", 0), ("key.bias", 0))

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        head_dim: int | None = None,
        max_distance: int = 512,
        buckets: int | None = None,
        third_row: str = "released",
        std: float = 0.02,
    ) -> None:
        super().__init__()
        sizes = {"model_dim": model_dim, "heads": heads, "max_distance": max_distance}
        given = {"head_dim": head_dim, "buckets": buckets}
        for what, size in (sizes | {what: size for what, size in given.items() if size is not None}).items():
            check_positive(size, who="DeBERTa", what=what)
        _check_options(max_distance, buckets, third_row)
        self.model_dim, self.heads = model_dim, heads
        self.head_dim = model_dim // heads if head_dim is None else head_dim
        self.max_distance, self.buckets, self.third_row, self.std = max_distance, buckets, third_row, std
        self.span = max_distance if buckets is None else buckets
        self.table = nn.Parameter(torch.empty(2 * self.span, model_dim))
        self.query = nn.Linear(model_dim, heads * self.head_dim)
        self.key = nn.Linear(model_dim, heads * self.head_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table and the projections (Glorot and Bengio 2010) anew."""
        nn.init.normal_(self.table, std=self.std)
        for projection in (self.query, self.key):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def bucket(self, distance: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Which distance stands for each, before it is clipped to the table."""
        if self.buckets is None:
            return distance
        middle = self.buckets // 2
        step = math.log((self.max_distance - 1) / middle) / (middle - 1)
        far = torch.arange(middle + 1, self.max_distance + 1, dtype=torch.float64)  # on any device's CPU
        beyond = (far / middle).log().div(step)
        beyond = middle + beyond.sub(1e-9).ceil().long()  # max_distance - 1 stays on the last row
        stands_for = torch.cat((torch.arange(middle + 1), beyond)).to(distance.device)
        return stands_for[distance.abs().clamp(max=self.max_distance).long()] * distance.sign()

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
        prepared: Rows | None = None,
    ) -> Float[Tensor, "batch heads query key"]:
        check_heads(q, self.heads, who="DeBERTa")
        check_width(q, self.head_dim, who="DeBERTa", what="head_dim", why="Rows are projected to that width")
        with without_autocast(q.device):
            q, k = wide(q), wide(k)
            behind = differences(query_positions, key_positions)
            rows = self._rows(q.dtype) if prepared is None else prepared
            asked = read(q @ rows.of_keys, self._entry(behind))
            third = self._entry(behind if self.third_row == "released" else -behind).mT
            bias: Tensor = (asked + self._by_keys(k, rows.of_queries, third)) * (3 * self.head_dim) ** -0.5
            return bias

    def prepare(
        self, key_positions: Int[Tensor, "*batch key"], dtype: torch.dtype
    ) -> Callable[[slice], object] | None:
        with without_autocast(self.table.device):
            rows = self._rows(dtype)
        return lambda columns: rows  # whatever the keys

    def _entry(self, behind: Tensor) -> Tensor:
        return self.bucket(behind).clamp(-self.span, self.span - 1).long() + self.span

    def _rows(self, dtype: torch.dtype) -> Rows:
        return Rows(self._projected(self.key, dtype), self._projected(self.query, dtype))

    def _projected(self, projection: nn.Linear, dtype: torch.dtype) -> Tensor:
        weight, added = projection.weight.to(dtype), projection.bias
        rows = nn.functional.linear(self.table.to(dtype), weight, None if added is None else added.to(dtype))
        return rows.view(-1, self.heads, self.head_dim).permute(1, 2, 0)

    def _by_keys(self, k: Tensor, rows: Tensor, entry: Tensor) -> Tensor:
        """``k_n . Q[entry]`` as ``[batch heads query key]``; some keys at a time, as each meets many rows."""
        most = max(1, _SCORES_AT_ONCE // max(1, k.shape[0] * rows.shape[0] * rows.shape[-1]))
        groups = self.heads // k.shape[1]
        scores = []
        for some, entries in zip(torch.split(k, most, dim=2), torch.split(entry, most, dim=1), strict=True):
            low, high = entries_read(entries, rows.shape[-1])
            product = some.repeat_interleave(groups, dim=1) @ rows[..., low:high]
            scores.append(read(product, entries - low).mT)
        return torch.cat(scores, dim=-1)

    def extra_repr(self) -> str:
        far = f"max_distance={self.max_distance}, buckets={self.buckets}"
        return f"model_dim={self.model_dim}, heads={self.heads}, {far}, third_row={self.third_row!r}"


def _check_options(max_distance: int, buckets: int | None, third_row: str) -> None:
    if third_row not in ("released", "printed"):
        raise HeadwiseError(
            who="DeBERTa",
            what="third_row",
            expected="'released' or 'printed'",
            got=repr(third_row),
            why="A key reads the table at m - n in the released code and at n - m in the paper",
            do="Use 'released' for weights from elsewhere",
        )
    if buckets is not None and not (buckets >= 4 and max_distance - 1 > buckets // 2):
        raise HeadwiseError(
            who="DeBERTa",
            what="buckets",
            expected=f"at least 4, and half of it below max_distance - 1 = {max_distance - 1}",
            got=str(buckets),
            why="Half of them are for short distances and half for those up to max_distance",
            do="Use fewer buckets, or None for a row for each distance",
        )
