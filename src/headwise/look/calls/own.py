"""Reads a call of headwise's own attention as a whole: what it is given is what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headwise.core import Causal, Mask, Padding, attention
from headwise.core.block import Block
from headwise.core.masks.mask import All
from headwise.core.sinks import sinks_of_queries
from headwise.look.calls.call import Alignment, AttentionCall
from headwise.look.calls.place import Place
from headwise.look.calls.terms import Terms

OWN: Any = attention


def read_own(
    args: tuple[Tensor, Tensor, Tensor], given: Mapping[str, Any], output: Tensor, place: Place, number: int
) -> AttentionCall:
    """The call that these arguments of ``headwise.core.attention`` make.

    >>> x = torch.zeros(1, 2, 3, 4)
    >>> how = {"mask": Causal(), "sinks": torch.zeros(2), "softcap": 5.0}
    >>> call = read_own((x, x, x), how, x, Place("attn", None, "headwise"), number=0)
    >>> print(call, call.sinks.shape, call.softcap)
    call 0 in attn: 2 heads, 3 queries, 3 keys, headwise, causal (lower right) torch.Size([1, 2, 3, 1]) 5.0
    """
    q, k, v = args
    mask, bias, scale = given.get("mask"), given.get("bias"), given.get("scale")
    causal, visible = _seen(mask, q, k)
    sinks = sinks_of_queries(given.get("sinks"), (q.shape[0], q.shape[1], q.shape[2]), who="attention")
    is_tensor = isinstance(bias, Tensor)
    of_scores, of_values = None if is_tensor else bias, given.get("value_bias")
    has_terms = of_scores is not None or of_values is not None
    return AttentionCall(
        q,
        k,
        v,
        output,
        scale=q.shape[-1] ** -0.5 if scale is None else float(scale),
        visible=visible,
        bias=bias if is_tensor else None,
        causal=causal,
        sinks=None if sinks is None else sinks[..., None],
        softcap=given.get("softcap"),
        terms=Terms(q, k, mask, of_scores, of_values) if has_terms else None,
        dropout=float(given.get("dropout", 0.0)),
        kind=place.kind,
        module=place.path,
        occurrence=place.occurrence,
        number=number,
    )


def is_one_kernel_call(q: Tensor, k: Tensor, given: Mapping[str, Any]) -> bool:
    """Whether attention with these arguments is one call of the kernel, on the queries and keys as they are.

    >>> x = torch.zeros(1, 2, 3, 4)
    >>> is_one_kernel_call(x, x, {"mask": Causal()}), is_one_kernel_call(x, x, {"softcap": 5.0})
    (True, False)
    """
    if any(given.get(name) is not None for name in ("bias", "softcap", "sinks", "value_bias")):
        return False
    mask = given.get("mask")
    return mask is None or mask.fused(q.shape[2], k.shape[2]) is not None


def _seen(mask: Mask | None, q: Tensor, k: Tensor) -> tuple[Alignment | None, Tensor | None]:
    """The causal flag, and what the rest of the mask lets through; padding stays one row for all queries."""
    queries, keys = q.shape[2], k.shape[2]
    causal: Alignment | None = None
    visible: Tensor | None = None
    for part in mask.masks if isinstance(mask, All) else () if mask is None else (mask,):
        if type(part) is Causal and queries <= keys:
            causal = "lower right"
            continue
        if type(part) is Padding:
            seen = part.keep[:, None, None]
        else:
            dense = Block((0, queries), (0, keys), keys - queries).visible(part, q.device)
            assert dense is not None
            seen = dense.expand(-1, -1, queries, keys)
        visible = seen if visible is None else visible & seen
    return causal, visible
