"""What sinusoidal embeddings say to each other, added to the scores without the embeddings."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.shapes import check_positive
from headwise.layers.positions.angles import check_base, cosines_and_sines
from headwise.layers.positions.distances import check_heads
from headwise.layers.positions.encoding import PositionalEncoding


class Sandwich(PositionalEncoding):
    """``bias_h(i, j) = heads / (8 h) * sum_w cos((p_i - p_j) / base^(2w / dim))``, h = 1 .. heads.

    Added after the scale. The sum over w = 0 .. dim / 2 - 1 is the dot product of two positions' sinusoidal
    embeddings, and is computed as one: no cosine for each pair. It falls about as the logarithm of the
    distance, with ripples; nothing is learned. ``dim`` is a number of its own, 128 in the paper, whatever the
    width of a head. Chi et al. 2022, arXiv 2212.10356; where w starts is from the authors' code. Raises
    HeadwiseError for a base that is not above 0.

    >>> q, k = torch.zeros(1, 2, 1, 64), torch.zeros(1, 2, 3, 64)
    >>> Sandwich(heads=2, dim=2).bias(q, k, torch.tensor([0]), torch.arange(3), None)[0]
    tensor([[[ 0.2500,  0.1351, -0.1040]],
    <BLANKLINE>
            [[ 0.1250,  0.0675, -0.0520]]])
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Chi et al. 2022, arXiv 2212.10356"

    def __init__(self, heads: int, *, dim: int = 128, base: float = 10000.0) -> None:
        super().__init__()
        check_positive(heads, who="Sandwich", what="heads")
        check_positive(dim, who="Sandwich", what="dim")
        check_base(base, who="Sandwich")
        self.heads, self.all_heads, self.first = heads, heads, 0
        self.dim, self.base = dim, base

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="Sandwich")
        dtype = torch.promote_types(q.dtype, torch.float32)
        at_queries = self._embedded(query_positions, dtype)
        at_keys = self._embedded(key_positions, dtype)
        with without_autocast(q.device):
            alike = at_queries @ at_keys.mT
        alike = alike if alike.dim() == 3 else alike[None]
        numbers = torch.arange(1, self.heads + 1, device=q.device, dtype=dtype) + self.first
        ratio = 8.0 / self.all_heads * numbers
        return alike[:, None] / ratio[:, None, None]

    def keep_heads(self, first: int, count: int, of: int) -> None:
        self.first, self.heads = self.first + first, count

    def _embedded(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.cat(cosines_and_sines(positions, self.dim, self.base, dtype), dim=-1)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, dim={self.dim}, base={self.base:g}"
