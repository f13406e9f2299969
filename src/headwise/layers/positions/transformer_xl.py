"""Sinusoids of the distance, seen through a projection, and two vectors that every query shares."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.autocast import without_autocast
from headwise.core.blocks import wide
from headwise.core.shapes import check_positive
from headwise.layers.positions.angles import check_base, cosines_and_sines
from headwise.layers.positions.distances import check_heads, differences
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.tables import check_width, read


class TransformerXL(PositionalEncoding):
    """``score(m, n) = (q_m . k_n + q_m . W r + u . k_n + v . W r) / sqrt(head_dim)``, ``r = R[m - n]``.

    ``R[p]`` holds the sines of ``p / base^(2i / model_dim)``, then the cosines; ``W`` is a projection to each
    head, ``u`` and ``v`` a vector for each head. Keys after the query have negative ``m - n``, so it serves
    in both directions, as in XLNet. Dai et al. 2019, arXiv 1901.02860, section 3.3.

    Sines of a difference are sums of products, so without ``max_distance`` the terms in ``W r`` are one
    product of what the query makes with the sinusoids of the key's position: no table of distances, and
    nothing to shift. With it, ``m - n`` is clipped to ``-max_distance .. max_distance``.

    Args:
        model_dim: width of ``R``, that of the layer.
        heads: query heads.
        head_dim: width of a head, ``model_dim / heads`` unless given.
        max_distance: where distances are clipped, if anywhere.
        base: of the sinusoids.

    Raises HeadwiseError if the layer's heads are not those of ``u`` and ``v``.

    >>> from headwise.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(16, heads=2, position=TransformerXL(16, heads=2))
    >>> layer(torch.randn(1, 5, 16)).shape
    torch.Size([1, 5, 16])
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Dai et al. 2019, arXiv 1901.02860, section 3.3"
    per_head = (("content_vector", 0), ("position_vector", 0), ("project.weight", 0))

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        head_dim: int | None = None,
        max_distance: int | None = None,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        sizes = {"model_dim": model_dim, "heads": heads}
        given = {"head_dim": head_dim, "max_distance": max_distance}
        for what, size in (sizes | {what: size for what, size in given.items() if size is not None}).items():
            check_positive(size, who="TransformerXL", what=what)
        check_base(base, who="TransformerXL")
        self.model_dim, self.heads, self.base = model_dim, heads, base
        self.head_dim = model_dim // heads if head_dim is None else head_dim
        self.max_distance = max_distance
        self.content_vector = nn.Parameter(torch.empty(heads, self.head_dim))
        self.position_vector = nn.Parameter(torch.empty(heads, self.head_dim))
        self.project = nn.Linear(model_dim, heads * self.head_dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the projection anew (Glorot and Bengio 2010), and ``u`` and ``v`` with deviation 0.02."""
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.normal_(self.content_vector, std=0.02)
        nn.init.normal_(self.position_vector, std=0.02)

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
        prepared: Float[Tensor, "*batch 1 key width"] | None = None,
    ) -> Float[Tensor, "batch heads query key"]:
        check_heads(q, self.heads, who="TransformerXL")
        check_width(q, self.head_dim, who="TransformerXL", what="head_dim", why="u and v have that width")
        with without_autocast(q.device):
            q, k = wide(q), wide(k)
            per_kv_head = self.content_vector.to(q).view(k.shape[1], -1, self.head_dim)
            of_content = (k @ per_kv_head.mT).mT.flatten(1, 2)[:, :, None]  # [batch heads 1 key]
            asked = q + self.position_vector.to(q)[:, None]
            projection = self.project.weight.to(q).view(self.heads, self.head_dim, self.model_dim)
            asked = (
                asked @ projection
            )  # what each query makes of the parts of R: [batch heads query model_dim]
            if self.max_distance is None:
                waves = self._waves(key_positions, q.dtype) if prepared is None else prepared
                of_position = self._turned(asked, query_positions) @ waves.mT
            else:
                of_position = self._clipped(asked, query_positions, key_positions, self.max_distance)
            bias: Tensor = (of_content + of_position) * self.head_dim**-0.5
            return bias

    def prepare(
        self, key_positions: Int[Tensor, "*batch key"], dtype: torch.dtype
    ) -> Callable[[slice], object] | None:
        if self.max_distance is not None:
            return None
        waves = self._waves(key_positions, dtype)
        return lambda columns: waves[..., columns, :]

    def _clipped(
        self, asked: Tensor, query_positions: Tensor, key_positions: Tensor, max_distance: int
    ) -> Tensor:
        distances = torch.arange(-max_distance, max_distance + 1, device=asked.device)
        cosine, sine = cosines_and_sines(distances, self.model_dim, self.base, asked.dtype)
        waves = torch.cat((sine, cosine[:, : self.model_dim // 2]), dim=-1)
        behind = differences(query_positions, key_positions).clamp(-max_distance, max_distance).long()
        return read(asked @ waves.mT, behind + max_distance)

    def _turned(self, asked: Tensor, query_positions: Tensor) -> Tensor:
        """``a, b`` with ``a cos n + b sin n = s sin(m - n) + c cos(m - n)``, where ``asked`` is ``s, c``."""
        cosine, sine = cosines_and_sines(query_positions, self.model_dim, self.base, asked.dtype)
        cosine, sine = cosine[..., None, :, :], sine[..., None, :, :]
        of_sine = asked[..., : sine.shape[-1]]
        of_cosine = asked[..., sine.shape[-1] :]
        if self.model_dim % 2:  # the last sine has no cosine beside it
            of_cosine = nn.functional.pad(of_cosine, (0, 1))
        a = of_sine * sine + of_cosine * cosine
        return torch.cat((a, of_cosine * sine - of_sine * cosine), dim=-1)

    def _waves(self, key_positions: Tensor, dtype: torch.dtype) -> Tensor:
        waves = torch.cat(cosines_and_sines(key_positions, self.model_dim, self.base, dtype), dim=-1)
        return waves[..., None, :, :]

    def extra_repr(self) -> str:
        return f"model_dim={self.model_dim}, heads={self.heads}, max_distance={self.max_distance}"
