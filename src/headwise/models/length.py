"""How long a text a model can take: where positions are rows of a table, no longer than the table."""

from __future__ import annotations

from typing import Any

from torch import nn

_SPARE_ROWS = 8  # some families keep a few more rows than positions


def trained_length(network: nn.Module) -> int | None:
    """How many tokens the model was made for, by its configuration and its table; None if nothing says it.

    >>> trained_length(nn.Linear(1, 1)) is None
    True
    """
    length = getattr(getattr(network, "config", None), "max_position_embeddings", None)
    if not isinstance(length, int):
        return None
    table = _position_table(network, length)
    if table is not None and table.padding_idx is not None:  # positions are counted from behind that row
        return min(length, table.num_embeddings - table.padding_idx - 1)
    return length


def goes_on(network: nn.Module) -> bool:
    """Whether the model computes its positions, as rotary ones, and so can read on beyond its length.

    >>> goes_on(nn.Linear(1, 1))
    False
    """
    config: Any = getattr(network, "config", None)
    length = getattr(config, "max_position_embeddings", None)
    rotary = any(getattr(config, name, None) for name in ("rope_parameters", "rope_theta", "rope_scaling"))
    return rotary and isinstance(length, int) and _position_table(network, length) is None


def _position_table(network: nn.Module, length: int) -> nn.Embedding | None:
    get_words: Any = getattr(network, "get_input_embeddings", lambda: None)
    words = get_words()
    tables = (x for x in network.modules() if isinstance(x, nn.Embedding) and x is not words)
    return next((x for x in tables if length <= x.num_embeddings <= length + _SPARE_ROWS), None)
