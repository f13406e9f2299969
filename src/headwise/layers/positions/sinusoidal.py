"""Sine and cosine waves of many lengths, added to the embeddings."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.layers.positions.angles import check_base, cosines_and_sines
from headwise.layers.positions.encoding import PositionalEncoding


class Sinusoidal(PositionalEncoding):
    """Each pair of dimensions is a clock hand, and each hand turns at its own speed.

    ``PE[p, 2i] = sin(p / base^(2i / model_dim))`` and ``PE[p, 2i + 1] = cos(the same)``; an odd ``model_dim``
    ends with a sine. The fastest hand turns once in ``2 pi`` positions whatever the base; the base sets the
    slowest. Moving by k positions turns hand i by ``k / base^(2i / model_dim)`` wherever it stands, so
    ``PE[p + k] = R_k PE[p]``. Vaswani et al. 2017, arXiv 1706.03762, section 3.5. Raises HeadwiseError for a
    base that is not above 0.

    >>> Sinusoidal().table(torch.arange(2), model_dim=4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """

    acts_on = ("embeddings",)
    relative = False
    any_length = True
    cacheable = True
    source = "Vaswani et al. 2017, arXiv 1706.03762, section 3.5"

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        check_base(base, who="Sinusoidal")
        self.base = base

    def table(
        self, positions: Int[Tensor, "*batch length"], model_dim: int, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch length model_dim"]:
        """The encoding of each position."""
        cosine, sine = cosines_and_sines(positions, model_dim, self.base, dtype)
        return torch.stack((sine, cosine), dim=-1).flatten(-2)[..., :model_dim]

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        wide = torch.promote_types(x.dtype, torch.float32)
        return (x + self.table(positions, x.shape[-1], wide)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"base={self.base:g}"
