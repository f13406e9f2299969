"""What the rotary encodings share: queries and keys turn, pair by pair, and their lengths stay."""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.pairs import Pairs, check_even, check_pairs, turn_pairs

Rotation = tuple[Tensor, Tensor]
Length = int | Tensor | None


class Turning(PositionalEncoding):
    """Turns pair i of a query or key by an angle that is linear in its position.

    A subclass says which angle: it gives cosines and sines for each head, position and pair. ``dims`` is how
    many of the first dimensions turn, all unless given; the others pass as they are.

    >>> from headwise.layers.positions import Rotary
    >>> isinstance(Rotary(), Turning)
    True
    """

    acts_on = ("queries and keys",)
    relative = True
    any_length = True
    cacheable = True

    def __init__(self, pairs: Pairs = "halves", dims: int | None = None) -> None:
        super().__init__()
        check_pairs(pairs, who=type(self).__name__)
        if dims is not None:
            check_positive(dims, who=type(self).__name__, what="dims")
            check_even(dims, who=type(self).__name__, what="dims")
        self.pairs, self.dims = pairs, dims

    def rotate(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch_query_axes"],
        key_positions: Int[Tensor, "*batch_key_axes"],
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        length = self._length(query_positions, key_positions)
        at_queries = self._rotation(q, query_positions, length)
        same = key_positions is query_positions and k.dtype == q.dtype
        same = same and (self._same_for_all_heads or k.shape[1] == q.shape[1])
        at_keys = at_queries if same else self._rotation(k, key_positions, length)
        return self._turned(q, at_queries), self._turned(k, at_keys)

    def turn(
        self, x: Float[Tensor, "batch heads length head_dim"], positions: Int[Tensor, "*batch_length_axes"]
    ) -> Float[Tensor, "batch heads length head_dim"]:
        """Queries or keys, turned by their positions."""
        return self._turned(x, self._rotation(x, positions, self._length(positions)))

    _same_for_all_heads = True

    @abstractmethod
    def _waves(self, x: Tensor, positions: Tensor, pairs: int, length: Length) -> Rotation:
        """Cosine and sine, ``[*batch heads length pairs]`` in float32 or better; heads may be 1."""

    def _length(self, *positions: Tensor) -> Length:
        """The length that the frequencies depend on, if they do."""
        return None

    def _rotation(self, x: Tensor, positions: Tensor, length: Length = None) -> Rotation:
        dims = x.shape[-1] if self.dims is None else self.dims
        if dims > x.shape[-1]:
            raise HeadwiseError(
                who=type(self).__name__,
                what="dims",
                expected=f"at most head_dim={x.shape[-1]}",
                got=str(dims),
                why="Only dimensions that are there can turn",
                do="Leave dims out to turn all of them",
            )
        check_even(dims, who=type(self).__name__)
        return self._waves(x, positions, dims // 2, length)

    def _turned(self, x: Tensor, rotation: Rotation) -> Tensor:
        return turn_pairs(x, *rotation, self.pairs)

    def extra_repr(self) -> str:
        dims = "" if self.dims is None else f", dims={self.dims}"
        return f"pairs={self.pairs!r}{dims}"


def wide_dtype(x: Tensor) -> torch.dtype:
    """Float32, or the dtype of ``x`` if that is better: what a turn is done in.

    >>> wide_dtype(torch.zeros(1, dtype=torch.bfloat16))
    torch.float32
    """
    return torch.promote_types(x.dtype, torch.float32)
