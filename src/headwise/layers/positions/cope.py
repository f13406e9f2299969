"""Positions counted by content: only the keys that a query opens a gate for count."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.autocast import without_autocast
from headwise.core.blocks import grouped_product, wide
from headwise.core.shapes import check_positive
from headwise.layers.positions.counting import counted
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.tables import check_width


class CoPE(PositionalEncoding):
    """``bias(m, n) = q_m . e[p]`` with ``p = sum of sigmoid(q_m . k_l / sqrt(head_dim))`` over l from n to m.

    Only keys that the query sees count, so the mask comes before the gate; the key at the query's own
    position counts too. p stops at ``max_position - 1``, and between two whole positions ``q . e`` is read
    linearly. Gates see the scaled scores, while ``q . e`` is not scaled. Golovneva et al. 2024, arXiv
    2405.18719, section 4 (scales as in the listing of appendix B).

    It is made for causal attention: a key after the query has p = 0. ``e`` is shared by the heads.
    Raises HeadwiseError if the layer's head_dim is not that of ``e``.

    >>> from headwise.core import Causal
    >>> from headwise.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(16, heads=2, position=CoPE(8, max_position=12), mask=Causal())
    >>> layer(torch.randn(1, 5, 16)).shape
    torch.Size([1, 5, 16])
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Golovneva et al. 2024, arXiv 2405.18719, section 4"

    def __init__(self, head_dim: int, max_position: int = 64, *, std: float = 0.02) -> None:
        super().__init__()
        check_positive(head_dim, who="CoPE", what="head_dim")
        check_positive(max_position, who="CoPE", what="max_position")
        self.std = std
        self.table = nn.Parameter(torch.empty(max_position, head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.std)

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "batch heads query key"]:
        last, head_dim = self.table.shape[0] - 1, self.table.shape[1]
        check_width(q, head_dim, who="CoPE", what="head_dim", why="The table holds vectors of that width")
        with without_autocast(q.device):
            q = wide(q)
            gates = grouped_product(q * head_dim**-0.5, wide(k).mT).sigmoid()
            scores = q @ self.table.to(q).mT
        position = counted(gates, query_positions, key_positions, visible)[0].clamp(max=last)
        # cut, which is rounded down, as none is negative; a query of NaN has no position, and stays NaN
        below = position.detach().nan_to_num(0.0).long()
        at_below = scores.gather(-1, below)
        at_above = scores.gather(-1, (below + 1).clamp(max=last))
        return torch.lerp(at_below, at_above, position - below)

    def extra_repr(self) -> str:
        return f"head_dim={self.table.shape[1]}, max_position={self.table.shape[0]}"
