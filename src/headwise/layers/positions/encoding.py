"""The protocol of positional encodings: three methods, of which an encoding overrides one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.core.flexible import ScoreChange


class PositionalEncoding(nn.Module):
    """How attention learns where a token stands.

    Order can enter at three places: added to the embeddings (``embed``), turning queries and keys
    (``rotate``), added to the scores (``bias``). Positions are always an argument, integers of shape
    ``[length]`` or ``[batch length]``, and nothing is stored between calls.

    The class attributes are claims, which the tests hold an encoding to:

    - ``acts_on``: the places it acts on, of "embeddings", "queries and keys", "scores";
    - ``relative``: adding one number to all positions changes nothing;
    - ``any_length``: defined at every position, beyond those it was trained on too;
    - ``cacheable``: a key, once encoded, stays valid when the sequence grows;
    - ``source``: where the formula is published.

    ``per_head`` names the parameters that hold a number for each head, and their axis of heads: a rank of a
    layer that is split over heads keeps a share of them (``keep_heads``).
    """

    acts_on: ClassVar[tuple[str, ...]] = ()
    relative: ClassVar[bool]
    any_length: ClassVar[bool]
    cacheable: ClassVar[bool]
    source: ClassVar[str]
    per_head: ClassVar[Mapping[str, int]] = {}

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        """The embeddings with their positions added. A model calls it once, at its input."""
        return x

    def rotate(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        """Queries and keys, turned by their positions."""
        return q, k

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "*batch query key"] | None,
    ) -> Float[Tensor, "#batch #heads query key"]:
        """What is added to the scaled scores of these queries and keys; called for a block of queries.

        Raises NotImplementedError in an encoding that does not act on scores, which no layer asks.
        """
        raise NotImplementedError(f"{type(self).__name__} does not act on the scores")

    def score_change(
        self, query_positions: Int[Tensor, "*batch query"], key_positions: Int[Tensor, "*batch key"]
    ) -> ScoreChange | None:
        """The same bias said for one score at a time, for FlexAttention on a GPU; None if it cannot be."""
        return None

    def keep_heads(self, first: int, count: int, of: int) -> None:
        """Become the encoding of ``count`` heads from ``first`` on, in place: a rank's share of all ``of``.

        An encoding that computes numbers for each head, rather than holding them, overrides it.
        """
        for name, axis in self.per_head.items():
            owner, _, leaf = name.rpartition(".")
            module = self.get_submodule(owner)
            whole: nn.Parameter = getattr(module, leaf)
            each = whole.shape[axis] // of  # a projection has head_dim rows for each head
            share = whole.detach().narrow(axis, first * each, count * each).clone()
            setattr(module, leaf, nn.Parameter(share, requires_grad=whole.requires_grad))
        if hasattr(self, "heads"):
            self.heads = count


def check_encoding(position: object, *, who: str) -> None:
    """Refuse anything but a positional encoding, made and not only named.

    >>> check_encoding(PositionalEncoding(), who="MultiHeadAttention")
    """
    if isinstance(position, PositionalEncoding):
        return
    raise HeadwiseError(
        who=who,
        what="position",
        expected="a PositionalEncoding such as Rotary() or Sinusoidal()",
        got=repr(position),
        why="The layer calls its embed, rotate and bias",
        do="Make one, with its brackets: position=Rotary()",
    )
