"""Where a call came from, and how many heads its module says it has."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

_HEADS = ("num_heads", "n_heads", "n_head", "num_attention_heads", "nhead", "heads")


class Place(NamedTuple):
    """The module that was running, the kind of the call, and the number of heads where the source knew it.

    ``occurrence`` counts the calls that the module had made before in the same pass of the model.
    """

    path: str
    module: nn.Module | None
    kind: str
    heads: int | None = None
    occurrence: int = 0


def heads_of(module: nn.Module | None) -> int | None:
    """The number of query heads a module, or its configuration, says it has; None if it does not say.

    >>> heads_of(torch.nn.MultiheadAttention(8, 2)), heads_of(torch.nn.Linear(1, 1))
    (2, None)
    """
    for holder in (module, getattr(module, "config", None)):
        for name in _HEADS:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def folded_group(place: Place, q_shape: tuple[int, ...], kv_heads: int) -> int:
    """How many heads a library has folded into the query axis, or 1.

    With one new token and a mask, transformers hands ``[batch, kv_heads, group, head_dim]`` to the kernel:
    head ``kv_head * group + row``, and one query. Only the module knows: it has ``kv_heads * group`` heads.

    >>> module = torch.nn.Module()
    >>> module.num_heads, module.num_key_value_groups = 9, 3
    >>> folded_group(Place("", module, "fused"), (1, 3, 3, 64), kv_heads=3)
    3
    >>> folded_group(Place("", module, "fused"), (1, 9, 3, 64), kv_heads=9)  # three queries of nine heads
    1
    """
    group = getattr(place.module, "num_key_value_groups", 1)
    if not isinstance(group, int) or group < 2 or len(q_shape) != 4:
        return 1
    folded = q_shape[1] == kv_heads and q_shape[2] == group and q_shape[1] * group == heads_of(place.module)
    return group if folded else 1
