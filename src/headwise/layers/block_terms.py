"""An encoding's terms as attention asks for them: for some rows and columns at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.layers.positions import PositionalEncoding


def score_terms(
    position: PositionalEncoding,
    q: Float[Tensor, "batch heads query head_dim"],
    query_positions: Int[Tensor, "*batch query"],
    key_positions: Int[Tensor, "*batch key"],
    features: Float[Tensor, "batch heads key"] | None = None,
) -> partial[Tensor] | None:
    """The ``bias`` of a call of attention, or None; ``features`` are those of the keys' tokens.

    >>> from headwise.layers.positions import ALiBi
    >>> at, x = torch.arange(4), torch.zeros(1, 1, 1, 2)
    >>> score_terms(ALiBi(heads=1), x.expand(1, 1, 4, 2), at, at)(x, x, slice(2, 3), slice(0, 1), None)
    tensor([[[[-0.0078]]]])
    """
    if "scores" not in position.acts_on:
        return None
    prepared = position.prepare(key_positions, torch.promote_types(q.dtype, torch.float32))
    return partial(_score_terms, position, query_positions, key_positions, features, prepared)


def value_terms(
    position: PositionalEncoding,
    query_positions: Int[Tensor, "*batch query"],
    key_positions: Int[Tensor, "*batch key"],
) -> partial[Tensor] | None:
    """The ``value_bias`` of a call of attention, or None.

    >>> from headwise.layers.positions import Shaw
    >>> at, weights = torch.arange(4), torch.ones(1, 1, 2, 3)
    >>> value_terms(Shaw(head_dim=8), at, at)(weights, slice(0, 2), slice(0, 3)).shape
    torch.Size([1, 1, 2, 8])
    """
    if "values" not in position.acts_on:
        return None
    return partial(_value_terms, position, query_positions, key_positions)


def _score_terms(
    position: PositionalEncoding,
    query_positions: Tensor,
    key_positions: Tensor,
    features: Tensor | None,
    prepared: Callable[[slice], object] | None,
    q: Tensor,
    k: Tensor,
    rows: slice | Tensor,
    columns: slice,
    visible: Tensor | None,
) -> Tensor:
    bias: Callable[..., Tensor] = position.bias
    more: dict[str, object] = {} if features is None else {"features": features[..., columns]}
    more |= {} if prepared is None else {"prepared": prepared(columns)}
    at_queries, at_keys = _at(query_positions, rows, position), _at(key_positions, columns, position)
    return bias(q, k, at_queries, at_keys, visible, **more)


def _value_terms(
    position: PositionalEncoding,
    query_positions: Tensor,
    key_positions: Tensor,
    weights: Tensor,
    rows: slice | Tensor,
    columns: slice,
) -> Tensor:
    at_queries, at_keys = _at(query_positions, rows, position), _at(key_positions, columns, position)
    return position.value_bias(weights, at_queries, at_keys)


def _at(positions: Tensor, where: slice | Tensor, position: PositionalEncoding) -> Tensor:
    return positions[..., where, :] if position.axes > 1 else positions[..., where]
