"""Sine and cosine waves of many lengths, added to the embeddings."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.angles import check_base, cosines_and_sines
from headwise.layers.positions.encoding import PositionalEncoding


class Sinusoidal(PositionalEncoding):
    """Each pair of dimensions is a clock hand, and each hand turns at its own speed.

    ``PE[p, 2i] = sin(p / base^(2i / model_dim))`` and ``PE[p, 2i + 1] = cos(the same)``; an odd ``model_dim``
    ends with a sine. The fastest hand turns once in ``2 pi`` positions whatever the base; the base sets the
    slowest. Moving by k positions turns hand i by ``k / base^(2i / model_dim)`` wherever it stands, so
    ``PE[p + k] = R_k PE[p]``. Vaswani et al. 2017, arXiv 1706.03762, section 3.5.

    Published models differ in two ways, and weights trained with one form do not work with another:

    - ``layout``: "neighbours" has sine and cosine of a hand side by side, as in the paper; "halves" has all
      sines and then all cosines (tensor2tensor, fairseq, Marian);
    - ``slowest``: "before base" spaces the hands by ``2i / model_dim``, so the slowest falls short of ``1 /
      base`` (the paper, Marian); "at base" by ``i / (pairs - 1)``, so it is ``1 / base`` (tensor2tensor,
      fairseq, XGLM). An odd ``model_dim`` then ends with a 0.

    Raises HeadwiseError for a base that is not above 0, and for another layout or spacing.

    >>> Sinusoidal().table(torch.arange(2), model_dim=4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    >>> Sinusoidal(layout="halves", slowest="at base").table(torch.arange(2), model_dim=4)
    tensor([[0.0000e+00, 0.0000e+00, 1.0000e+00, 1.0000e+00],
            [8.4147e-01, 1.0000e-04, 5.4030e-01, 1.0000e+00]])
    """

    acts_on = ("embeddings",)
    relative = False
    any_length = True
    cacheable = True
    source = "Vaswani et al. 2017, arXiv 1706.03762, section 3.5"

    def __init__(
        self,
        base: float = 10000.0,
        *,
        layout: Literal["neighbours", "halves"] = "neighbours",
        slowest: Literal["before base", "at base"] = "before base",
    ) -> None:
        super().__init__()
        check_base(base, who="Sinusoidal")
        _check_one_of(layout, ("neighbours", "halves"), "layout")
        _check_one_of(slowest, ("before base", "at base"), "slowest")
        self.base, self.layout, self.slowest = base, layout, slowest

    def table(
        self, positions: Int[Tensor, "*batch length"], model_dim: int, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch length model_dim"]:
        """The encoding of each position."""
        cosine, sine = self._waves(positions, model_dim, dtype)
        if self.layout == "neighbours":
            waves = torch.stack((sine, cosine), dim=-1).flatten(-2)[..., :model_dim]
        else:
            waves = torch.cat((sine, cosine), dim=-1)[..., :model_dim]
        return torch.nn.functional.pad(waves, (0, model_dim - waves.shape[-1]))

    def _waves(self, positions: Tensor, model_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        pairs = model_dim // 2
        if self.slowest == "before base" or pairs == 0:
            return cosines_and_sines(positions, model_dim, self.base, dtype)
        # base^(-i / (pairs - 1)) as the paper's spacing of another base
        base = self.base if pairs == 1 else self.base ** (pairs / (pairs - 1))
        return cosines_and_sines(positions, 2 * pairs, base, dtype)

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        wide = torch.promote_types(x.dtype, torch.float32)
        return (x + self.table(positions, x.shape[-1], wide)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"base={self.base:g}, layout={self.layout!r}, slowest={self.slowest!r}"


def _check_one_of(value: object, names: tuple[str, str], what: str) -> None:
    if value in names:
        return
    raise HeadwiseError(
        who="Sinusoidal",
        what=what,
        expected=f"{names[0]!r} or {names[1]!r}",
        got=repr(value),
        why="Published models use these two, and they are not interchangeable",
        do=f"Use {names[0]!r} for the paper's form",
    )
