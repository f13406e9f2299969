"""A penalty that grows with distance, at a different rate in each head."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.flexible import ScoreChange, position_of
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads
from headwise.layers.positions.encoding import PositionalEncoding


class ALiBi(PositionalEncoding):
    """``bias_h(i, j) = -slope_h * |p_i - p_j|``, added after the scale.

    For a power of two the slopes are ``2^(-8 h / heads)``, h = 1 .. heads. For another number of heads they
    are those of the next lower power of two, then every second one of twice that number. Press, Smith and
    Lewis 2021, arXiv 2108.12409, section 3 (the rule for other head counts is from the authors' code).
    The paper's models look back only; a key after the query is taken by its distance too.

    >>> ALiBi(heads=8).slopes()
    tensor([0.5000, 0.2500, 0.1250, 0.0625, 0.0312, 0.0156, 0.0078, 0.0039])
    >>> ALiBi(heads=3).slopes()
    tensor([0.0625, 0.0039, 0.2500])
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Press, Smith and Lewis 2021, arXiv 2108.12409, section 3"

    def __init__(self, heads: int) -> None:
        super().__init__()
        check_positive(heads, who="ALiBi", what="heads")
        self.heads, self.all_heads, self.first = heads, heads, 0

    def slopes(
        self, device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, " heads"]:
        """The penalty of each head for one position of distance."""
        power = 2 ** (self.all_heads.bit_length() - 1)
        whole = 8.0 / power * torch.arange(1, power + 1, device=device, dtype=dtype)
        between = 4.0 / power * torch.arange(1, 2 * power, 2, device=device, dtype=dtype)
        exponents = torch.cat((whole, between[: self.all_heads - power]))
        return torch.exp2(-exponents[self.first : self.first + self.heads])

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="ALiBi")
        dtype = torch.promote_types(q.dtype, torch.float32)
        # counted from the last key, every distance below 2^24 is exact in float32 too
        ahead = (query_positions - key_positions[..., -1:]).to(dtype)[..., :, None]
        distance = (ahead - (key_positions - key_positions[..., -1:]).to(dtype)[..., None, :]).abs()
        distance = distance if distance.dim() == 3 else distance[None]
        return distance[:, None] * -self.slopes(q.device, dtype)[:, None, None]

    def score_change(
        self, query_positions: Int[Tensor, "*batch query"], key_positions: Int[Tensor, "*batch key"]
    ) -> ScoreChange:
        slopes = self.slopes(query_positions.device)

        def change(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            distance = position_of(query_positions, row, query) - position_of(key_positions, row, key)
            return score - slopes[head] * distance.abs()

        return change

    def keep_heads(self, first: int, count: int, of: int) -> None:
        self.first, self.heads = self.first + first, count

    def extra_repr(self) -> str:
        return f"heads={self.heads}"
