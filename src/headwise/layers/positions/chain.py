"""Several encodings at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.encoding import PositionalEncoding, check_encoding

_PLACES = ("embeddings", "queries and keys", "scores", "values")


class Chain(PositionalEncoding):
    """Applies encodings one after another: embeddings and turns in order, what goes to scores or to values
    summed.

    It acts wherever one of them does, and claims what all of them claim: it is relative if all are, defined
    at any length if all are, cacheable if all are. Raises HeadwiseError without an encoding, and for
    encodings that read different positions, a place in a line and a row and a column.

    >>> from headwise.layers.positions import ALiBi, Rotary
    >>> both = Chain(Rotary(), ALiBi(heads=8))
    >>> both.acts_on, both.relative
    (('queries and keys', 'scores'), True)
    """

    def __init__(self, *encodings: PositionalEncoding) -> None:
        super().__init__()
        for encoding in encodings:
            check_encoding(encoding, who="Chain")
        _check_together(encodings)
        self.encodings = nn.ModuleList(encodings)
        acts_on = {place for encoding in encodings for place in encoding.acts_on}
        self.acts_on = tuple(place for place in _PLACES if place in acts_on)
        self.axes = encodings[0].axes
        self.content_scale = math.prod(encoding.content_scale for encoding in encodings)
        self.relative = all(encoding.relative for encoding in encodings)
        self.any_length = all(encoding.any_length for encoding in encodings)
        self.cacheable = all(encoding.cacheable for encoding in encodings)
        self.source = "; ".join(encoding.source for encoding in encodings)

    def __iter__(self) -> Iterator[PositionalEncoding]:
        """The encodings, in order."""
        for encoding in self.encodings:
            assert isinstance(encoding, PositionalEncoding)
            yield encoding

    def default_positions(self, length: int, device: torch.device) -> Int[Tensor, "*length_axes"]:
        """Those of the first encoding."""
        return next(iter(self)).default_positions(length, device)

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        for encoding in self:
            x = encoding.embed(x, positions)
        return x

    def rotate(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        for encoding in self:
            q, k = encoding.rotate(q, k, query_positions, key_positions)
        return q, k

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
        features: Float[Tensor, "batch features key"] | None = None,
        prepared: Sequence[object] | None = None,
    ) -> Float[Tensor, "#batch #heads query key"]:
        if "scores" not in self.acts_on:
            return super().bias(q, k, query_positions, key_positions, visible)
        parts: list[Tensor | None] = [None] * len(self.encodings)
        if features is not None:
            parts = list(
                features.split_with_sizes([_sets(encoding) * q.shape[1] for encoding in self], dim=1)
            )
        made = [None] * len(self.encodings) if prepared is None else prepared
        added = []
        for encoding, part, of_call in zip(self, parts, made, strict=True):
            if "scores" in encoding.acts_on:
                bias: Callable[..., Tensor] = encoding.bias
                more: dict[str, object] = {"features": part} if _sets(encoding) else {}
                more |= {} if of_call is None else {"prepared": of_call}
                added.append(bias(q, k, query_positions, key_positions, visible, **more))
        return reduce(torch.add, added)

    def prepare(
        self, key_positions: Int[Tensor, "*batch key"], dtype: torch.dtype
    ) -> Callable[[slice], object] | None:
        of_each = [encoding.prepare(key_positions, dtype) for encoding in self]
        if all(made is None for made in of_each):
            return None
        return lambda columns: [None if made is None else made(columns) for made in of_each]

    def features(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch features length"] | None:
        """Those of each encoding that has any, one after another on the axis of heads."""
        made = [part for part in (encoding.features(x) for encoding in self) if part is not None]
        return torch.cat(made, dim=1) if made else None

    def value_bias(
        self,
        weights: Float[Tensor, "batch heads query key"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> Float[Tensor, "batch heads query value_dim"]:
        if "values" not in self.acts_on:
            return super().value_bias(weights, query_positions, key_positions)
        adding = (encoding for encoding in self if "values" in encoding.acts_on)
        return reduce(torch.add, (e.value_bias(weights, query_positions, key_positions) for e in adding))


def _sets(encoding: PositionalEncoding) -> int:
    """How many numbers for each head an encoding keeps of a token."""
    if isinstance(encoding, Chain):
        return sum(map(_sets, encoding))
    return int(type(encoding).features is not PositionalEncoding.features)


def _check_together(encodings: tuple[PositionalEncoding, ...]) -> None:
    if not encodings:
        raise HeadwiseError(
            who="Chain",
            what="encodings",
            expected="at least one",
            got="none",
            why="It applies what it is given",
            do="Use NoPosition() for no encoding",
        )
    axes = [encoding.axes for encoding in encodings]
    if len(set(axes)) > 1:
        raise HeadwiseError(
            who="Chain",
            what="encodings",
            expected="of one kind of positions",
            got=f"encodings of {', '.join(map(str, axes))} axes",
            why="All of them get the same positions",
            do="Chain those that read a place in a line, or those that read a row and a column",
        )
