"""Which key/value head does each query head read?"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from headwise.check.asking import ask, checked
from headwise.check.properties.scale import Attend
from headwise.check.report import Report, judged

_CAUSE = (
    "Usually repeat or tile where repeat_interleave is meant, or a reshape that splits the heads the other "
    "way round: look at the line that gives the key/value heads to the query heads"
)


@checked("kv_order", do="Pass a callable that takes q with more heads than k and v")
def kv_order(
    attend: Attend,
    *,
    heads: int = 6,
    kv_heads: int = 2,
    expected: Literal["block", "tiled"] = "block",
    dtype: torch.dtype = torch.float32,
) -> Report:
    """Each query head reads the key/value head it should, for its keys and for its values.

    In block order query heads ``g*r .. g*r + r - 1`` read kv head ``g``, with ``r = heads / kv_heads``; in
    tiled order head ``h`` reads ``h % kv_heads``. The figure is the number of heads that read another.

    >>> from headwise.check import kv_order
    >>> def tiled(q, k, v):
    ...     k, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v))
    ...     return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
    >>> kv_order(tiled).failing
    'query head 1 reads the keys of kv head 1, where block order gives 0; all are in tiled order'
    """
    share = heads // kv_heads
    orders = {
        "block": [head // share for head in range(heads)],
        "tiled": [h % kv_heads for h in range(heads)],
    }
    want = orders[expected]
    tried = f"{heads} query heads on {kv_heads} kv heads"
    found = {
        "keys": _keys(attend, heads, kv_heads, dtype),
        "values": _values(attend, heads, kv_heads, dtype),
    }
    wrong = max(sum(a != b for a, b in zip(read, want, strict=True)) for read in found.values())
    failing = _words(found, orders, expected)
    return judged("kv_order", float(wrong), 0.0, tried=tried, failing=failing, cause=_CAUSE)


def _words(found: dict[str, list[int]], orders: dict[str, list[int]], expected: str) -> str:
    want = orders[expected]
    for what, read in found.items():
        for head, (got, right) in enumerate(zip(read, want, strict=True)):
            if got != right:
                other = next((name for name, order in orders.items() if order == read), "")
                order = f"; all are in {other} order" if other else ""
                gets = f"the {what} of kv head {got}" if got >= 0 else f"the {what} of no single kv head"
                return f"query head {head} reads {gets}, where {expected} order gives {right}{order}"
    return ""


def _keys(attend: Attend, heads: int, kv_heads: int, dtype: torch.dtype) -> list[int]:
    """Kv head g has one key that stands out, at place g."""
    width = max(8, kv_heads)
    q = torch.zeros(1, heads, kv_heads, width, dtype=dtype)
    k = torch.zeros(1, kv_heads, kv_heads, width, dtype=dtype)
    q[..., 0] = 16.0
    for head in range(kv_heads):
        k[0, head, head, 0] = 16.0
    v = torch.eye(kv_heads, width, dtype=dtype).expand(1, kv_heads, kv_heads, width)
    return _read(ask(attend, q, k, v, shape=q.shape)[0, :, 0, :kv_heads])


def _values(attend: Attend, heads: int, kv_heads: int, dtype: torch.dtype) -> list[int]:
    """Kv head g has the value e_g everywhere."""
    width = max(8, kv_heads)
    q = torch.zeros(1, heads, kv_heads, width, dtype=dtype)
    k = torch.zeros(1, kv_heads, kv_heads, width, dtype=dtype)
    v = torch.eye(kv_heads, width, dtype=dtype)[None, :, None].expand(1, kv_heads, kv_heads, width)
    return _read(ask(attend, q, k, v, shape=q.shape)[0, :, 0, :kv_heads])


def _read(weights: Tensor) -> list[int]:
    """The kv head that each query head reads, -1 where it is not one alone."""
    alone = weights.amax(-1) > 0.9
    return [int(best) if one else -1 for best, one in zip(weights.argmax(-1), alone, strict=True)]
