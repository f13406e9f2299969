"""A vector for each distance, up to a limit: one added to keys, one added to values."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.autocast import without_autocast
from headwise.core.blocks import wide
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads, differences
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.tables import check_width, collected, read


class Shaw(PositionalEncoding):
    """``score(m, n) = q_m . (k_n + a_K[r]) / sqrt(head_dim)``; ``output_m = sum_n p_mn (v_n + a_V[r])``.

    ``r = clip(n - m, -max_distance, max_ahead)`` with ``n - m`` the distance from the query to the key, so a
    table has ``max_distance + 1 + max_ahead`` rows, the key furthest before the query first. Shaw, Uszkoreit
    and Vaswani 2018, arXiv 1803.02155, eqs. (3) to (5).

    Args:
        head_dim: width of a query, and of a value unless ``value_dim`` is given.
        max_distance: distances beyond it share a row (16 in the paper).
        max_ahead: the same for keys after the query, ``max_distance`` unless given.
        heads: give each query head tables of its own; all heads share them unless given, as in the paper.
        value_dim: width of a value.
        values: whether values get a table too; without it an encoding of keys alone.
        std: deviation of the normal distribution that tables start from.

    Raises HeadwiseError if the layer's heads or widths are not those of the tables.

    >>> Shaw(head_dim=8, max_distance=2).key_table.shape
    torch.Size([5, 8])
    >>> from headwise.layers import MultiHeadAttention
    >>> MultiHeadAttention(16, heads=2, position=Shaw(8))(torch.randn(1, 5, 16)).shape
    torch.Size([1, 5, 16])
    """

    acts_on: tuple[str, ...] = ("scores", "values")
    relative = True
    any_length = True
    cacheable = True
    source = "Shaw, Uszkoreit and Vaswani 2018, arXiv 1803.02155, eqs. (3) to (5)"

    def __init__(
        self,
        head_dim: int,
        max_distance: int = 16,
        *,
        max_ahead: int | None = None,
        heads: int | None = None,
        value_dim: int | None = None,
        values: bool = True,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        given = {"max_ahead": max_ahead, "heads": heads, "value_dim": value_dim}
        sizes = {"head_dim": head_dim, "max_distance": max_distance}
        for what, size in (sizes | {what: size for what, size in given.items() if size is not None}).items():
            check_positive(size, who="Shaw", what=what)
        self.max_distance, self.heads, self.std = max_distance, heads, std
        self.max_ahead = max_distance if max_ahead is None else max_ahead
        shape = () if heads is None else (heads,)
        rows = self.max_distance + 1 + self.max_ahead
        self.key_table = nn.Parameter(torch.empty(*shape, rows, head_dim))
        width = head_dim if value_dim is None else value_dim
        self.value_table = nn.Parameter(torch.empty(*shape, rows, width)) if values else None
        self.per_head = () if heads is None else (("key_table", 0), ("value_table", 0))
        if not values:
            self.acts_on = ("scores",)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables anew."""
        for table in self.parameters():
            nn.init.normal_(table, std=self.std)

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "batch heads query key"]:
        width, why = self.key_table.shape[-1], "The table holds vectors of that width"
        check_width(q, width, who="Shaw", what="head_dim", why=why)
        if self.heads is not None:
            check_heads(q, self.heads, who="Shaw")
        with without_autocast(q.device):
            scores = wide(q) * q.shape[-1] ** -0.5 @ self.key_table.to(wide(q)).mT
        return read(scores, self._entry(query_positions, key_positions))

    def value_bias(
        self,
        weights: Float[Tensor, "batch heads query key"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> Float[Tensor, "batch heads query value_dim"]:
        if self.value_table is None:
            return super().value_bias(weights, query_positions, key_positions)
        of_entry = collected(weights, self._entry(query_positions, key_positions), self.value_table.shape[-2])
        with without_autocast(weights.device):
            gained: Tensor = of_entry @ self.value_table.to(of_entry)
        return gained

    def _entry(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        ahead = -differences(query_positions, key_positions)
        return ahead.clamp(-self.max_distance, self.max_ahead).long() + self.max_distance

    def extra_repr(self) -> str:
        behind = f"max_distance={self.max_distance}, max_ahead={self.max_ahead}"
        heads = "" if self.heads is None else f", heads={self.heads}"
        return f"head_dim={self.key_table.shape[-1]}, {behind}{heads}"
