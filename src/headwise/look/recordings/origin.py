"""Tells self-attention from cross-attention by what an attention module was called with."""

from __future__ import annotations

from typing import Any

from torch import Tensor

# how modules call the other text that their keys come from
OTHERS = (
    "key_value_states",
    "encoder_hidden_states",
    "cross_attention_states",
    "memory",
    "context",
    "inputs",
)


def from_itself(given: dict[str, Any]) -> bool | None:
    """Whether keys come from the same tokens as queries; None where the arguments do not tell.

    ``given`` are a module's arguments by name, None for those left out.

    >>> x, y = torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)
    >>> from_itself({"query": x, "key": x, "value": x}), from_itself({"query": x, "key": y, "value": y})
    (True, False)
    >>> from_itself({"x": x, "memory": y}), from_itself({"x": x, "memory": None}), from_itself({"x": x})
    (False, True, True)
    >>> from_itself({"latents": x, "pixels": y}) is None
    True
    """
    query, key = given.get("query"), given.get("key")
    if isinstance(query, Tensor) and isinstance(key, Tensor):
        return _same(query, key)
    sequences = [x for x in given.values() if isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 2]
    others = [x for name in OTHERS if isinstance(x := given.get(name), Tensor)]
    if others:
        return bool(sequences) and _same(sequences[0], others[0])
    knows = "hidden_states" in given or any(name in given for name in OTHERS)
    return True if knows or len(sequences) == 1 else None


def _same(x: Tensor, y: Tensor) -> bool:
    if x is y:
        return True
    alike = x.shape == y.shape and x.stride() == y.stride() and x.layout == y.layout
    return alike and x.device.type != "meta" and not x.is_nested and x.data_ptr() == y.data_ptr()
