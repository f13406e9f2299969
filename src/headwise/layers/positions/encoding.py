"""The protocol of positional encodings: a method for each place where order can enter attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.core.flexible import ScoreChange


class PositionalEncoding(nn.Module):
    """How attention learns where a token stands.

    Order can enter at four places: added to the embeddings (``embed``), turning queries and keys
    (``rotate``), added to the scores (``bias``), added to the values (``value_bias``). Positions are always
    an argument, integers of shape ``[length]`` or ``[batch length]``, and nothing is stored between calls. An
    encoding with several ``axes``, such as the rows and columns of an image, takes ``[length axes]`` or
    ``[batch length axes]``.

    An encoding may also read more of each token than its query and key (``features``), and set how much the
    score of content weighs beside its own terms (``content_scale``, a factor on the layer's scale).

    The attributes are claims of the class (of the object in a Chain), which the tests hold an encoding to:

    - ``axes``: numbers in a position, 2 for a row and a column; ``positions`` then have a last axis for them;
    - ``acts_on``: the places it acts on, of "embeddings", "queries and keys", "scores", "values";
    - ``relative``: adding one number to all positions changes nothing;
    - ``any_length``: defined at every position, beyond those it was trained on too;
    - ``cacheable``: a key, once encoded, stays valid when the sequence grows;
    - ``source``: where the formula is published.

    ``per_head`` names the parameters that hold numbers for each head, and their axis of heads: a rank of a
    layer that is split over heads keeps a share of them (``keep_heads``).
    """

    axes: int = 1
    acts_on: tuple[str, ...] = ()
    content_scale: float = 1.0
    relative: bool
    any_length: bool
    cacheable: bool
    source: str
    per_head: tuple[tuple[str, int], ...] = ()

    def default_positions(self, length: int, device: torch.device) -> Int[Tensor, "*length_axes"]:
        """What a layer takes where a call gives no positions: a count from 0.

        >>> PositionalEncoding().default_positions(3, torch.device("cpu"))
        tensor([0, 1, 2])
        """
        if self.axes > 1:
            raise HeadwiseError(
                who=type(self).__name__,
                what="positions",
                expected=f"integers of shape [{length}, {self.axes}] or [batch, {length}, {self.axes}]",
                got="None",
                why=f"A count from 0 says nothing of {self.axes} axes",
                do="Pass positions=grid_positions(rows, columns), or the same with an offset",
            )
        return torch.arange(length, device=device)

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch_length_axes"]
    ) -> Float[Tensor, "batch length model_dim"]:
        """The embeddings with their positions added. A model calls it once, at its input."""
        return x

    def rotate(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch_query_axes"],
        key_positions: Int[Tensor, "*batch_key_axes"],
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        """Queries and keys, turned by their positions."""
        return q, k

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch #heads query key"]:
        """What is added to the scaled scores of these queries and keys; called for a block of queries.

        ``k`` holds at least every key that ``visible`` shows to one of the queries. Where ``features`` gives
        a tensor, that of these keys comes as one more argument, ``features=``; what ``prepare`` makes for
        them as ``prepared=``.

        Raises NotImplementedError in an encoding that does not act on scores, which no layer asks.
        """
        raise NotImplementedError(f"{type(self).__name__} does not act on the scores")

    def prepare(
        self, key_positions: Int[Tensor, "*batch key"], dtype: torch.dtype
    ) -> Callable[[slice], object] | None:
        """What ``bias`` would otherwise make anew in each block of a call, made once for all keys; or None.

        Asked for the columns of a block, it gives what ``bias`` gets as one more argument, ``prepared=``.
        ``dtype`` is that of the scores, float32 or better.
        """
        return None

    def features(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch heads length"] | None:
        """What the encoding needs of each token beside its key, made from the layer's input; or None.

        A number for each head, which depends on that token alone: a cache keeps it beside the key.
        """
        return None

    def value_bias(
        self,
        weights: Float[Tensor, "batch heads query key"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> Float[Tensor, "batch heads query value_dim"]:
        """What these queries gain by their weights because values depend on the distance: linear in them.

        Raises NotImplementedError in an encoding that does not act on values, which no layer asks.
        """
        raise NotImplementedError(f"{type(self).__name__} does not act on the values")

    def score_change(
        self, query_positions: Int[Tensor, "*batch query"], key_positions: Int[Tensor, "*batch key"]
    ) -> ScoreChange | None:
        """The same bias said for one score at a time, for FlexAttention on a GPU; None if it cannot be."""
        return None

    def keep_heads(self, first: int, count: int, of: int) -> None:
        """Become the encoding of ``count`` heads from ``first`` on, in place: a rank's share of all ``of``.

        An encoding that computes numbers for each head, rather than holding them, overrides it.
        """
        for name, axis in self.per_head:
            owner, _, leaf = name.rpartition(".")
            module = self.get_submodule(owner)
            whole: nn.Parameter | None = getattr(module, leaf)
            if whole is not None:
                share = _share(whole.detach(), axis, first, count, of, who=f"{type(self).__name__}.{name}")
                setattr(module, leaf, nn.Parameter(share, requires_grad=whole.requires_grad))
        if vars(self).get("heads") is not None:
            vars(self)["heads"] = count


def _share(whole: Tensor, axis: int, first: int, count: int, of: int, *, who: str) -> Tensor:
    size = whole.shape[axis]  # several for each head in a projection, fewer than one for what kv heads share
    if size * count % of:
        raise HeadwiseError(
            who=who,
            what="its axis of heads",
            expected=f"one that {of // count} ranks can share",
            got=str(size),
            why="Each rank keeps the numbers of its own heads",
            do="Use fewer ranks, or an encoding with numbers for more heads",
        )
    return whole.narrow(axis, first * size // of, count * size // of).clone()


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
