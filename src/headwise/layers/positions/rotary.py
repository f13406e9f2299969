"""Queries and keys turned by their positions, so that a score depends on the distance."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.angles import check_base, cosines_and_sines
from headwise.layers.positions.encoding import PositionalEncoding

Rotation = tuple[Tensor, Tensor]


class Rotary(PositionalEncoding):
    """Pair i of a query or key at position p turns by ``p * base^(-2i / head_dim)``.

    Both turn, so their dot product keeps only the difference: ``(R_m q) . (R_n k) = q . (R_(n-m) k)``.
    Su et al. 2021, arXiv 2104.09864, eq. (34). Two layouts of the pairs are in use; weights trained with one
    do not work with the other::

        neighbours   x0 x1 | x2 x3     pairs (2i, 2i + 1): the paper, GPT-J, the released Llama weights
        halves       x0 x2 | x1 x3     pairs (i, i + head_dim / 2): GPT-NeoX, Hugging Face models

    Angles come from integer positions in float64, and the turn is done in float32 or better: half precision
    stays right at any distance. Raises HeadwiseError for an odd head_dim
    or a base that is not above 0.

    >>> q = torch.tensor([1.0, 0.0, 0.0, 0.0]).reshape(1, 1, 1, 4)
    >>> Rotary(pairs="halves").turn(q, torch.tensor([1]))[0, 0]
    tensor([[0.5403, 0.0000, 0.8415, 0.0000]])
    >>> Rotary(pairs="neighbours").turn(q, torch.tensor([1]))[0, 0]
    tensor([[0.5403, 0.8415, 0.0000, 0.0000]])
    """

    acts_on = ("queries and keys",)
    relative = True
    any_length = True
    cacheable = True
    source = "Su et al. 2021, arXiv 2104.09864, eq. (34)"

    def __init__(self, base: float = 10000.0, *, pairs: Literal["halves", "neighbours"] = "halves") -> None:
        super().__init__()
        if pairs not in ("halves", "neighbours"):
            raise HeadwiseError(
                who="Rotary",
                what="pairs",
                expected="'halves' or 'neighbours'",
                got=repr(pairs),
                why="Dimension 0 turns with dimension head_dim / 2 or with dimension 1",
                do="Use 'halves' for weights from Hugging Face, 'neighbours' for the paper's layout",
            )
        check_base(base, who="Rotary")
        self.base, self.pairs = base, pairs

    def rotate(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        at_queries = self._rotation(q, query_positions)
        same = key_positions is query_positions and k.dtype == q.dtype
        at_keys = at_queries if same else self._rotation(k, key_positions)
        return self._turned(q, at_queries), self._turned(k, at_keys)

    def turn(
        self, x: Float[Tensor, "batch heads length head_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch heads length head_dim"]:
        """Queries or keys, turned by their positions."""
        return self._turned(x, self._rotation(x, positions))

    def _rotation(self, x: Tensor, positions: Tensor) -> Rotation:
        head_dim = x.shape[-1]
        if head_dim % 2:
            raise HeadwiseError(
                who="Rotary",
                what="head_dim",
                expected="even",
                got=str(head_dim),
                why="Dimensions turn in pairs",
                do="Choose model_dim and heads so that model_dim / heads is even, or pass head_dim",
            )
        wide = torch.promote_types(x.dtype, torch.float32)
        cosine, sine = cosines_and_sines(positions, head_dim, self.base, wide)
        return cosine[..., None, :, :], sine[..., None, :, :]  # the same for all heads

    def _turned(self, x: Tensor, rotation: Rotation) -> Tensor:
        cosine, sine = rotation
        wide = x.to(cosine.dtype)
        turned = (
            _turn_halves(wide, cosine, sine)
            if self.pairs == "halves"
            else _turn_neighbours(wide, cosine, sine)
        )
        return turned.to(x.dtype)

    def extra_repr(self) -> str:
        return f"base={self.base:g}, pairs={self.pairs!r}"


def _turn_halves(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    partner = x.roll(x.shape[-1] // 2, dims=-1)  # half as costly in the backward pass as slices of the halves
    turned = x * torch.cat((cosine, cosine), dim=-1)
    return turned.addcmul_(partner, torch.cat((-sine, sine), dim=-1))


def _turn_neighbours(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    as_complex = torch.view_as_complex(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2))
    return torch.view_as_real(as_complex * torch.complex(cosine, sine)).flatten(-2)
