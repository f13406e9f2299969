"""Reads a call of scaled_dot_product_attention by the kernel's own rules."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.bias import CausalBias, CausalVariant
from torch.nn.functional import scaled_dot_product_attention

from headwise.look.calls.call import Alignment, AttentionCall
from headwise.look.calls.layout import lay, lay_mask, split
from headwise.look.calls.place import Place, folded_group, heads_of
from headwise.look.calls.plain import padded, real_pairs, unwrapped

FUSED: tuple[Any, ...] = (
    scaled_dot_product_attention,
    torch._C._nn.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)


class Arguments(NamedTuple):
    """The arguments of scaled_dot_product_attention, in their order."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def read_fused(
    args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor, place: Place, number: int
) -> AttentionCall:
    """The call that these arguments of scaled_dot_product_attention make.

    >>> x = torch.zeros(2, 3, 4)  # two heads, no batch
    >>> print(read_fused((x, x, x), {"is_causal": True}, x, Place("attn", None, "fused"), number=0))
    call 0 in attn: 2 heads, 3 queries, 3 keys, fused, causal (upper left)
    """
    given = Arguments(*args, **kwargs)
    causal: Alignment | None = "upper left" if given.is_causal else None
    mask = given.attn_mask
    if isinstance(mask, CausalBias):  # a tensor in name only
        causal = "lower right" if mask.variant == CausalVariant.LOWER_RIGHT else "upper left"
        mask = None
    q, k, v, output, mask = _plain(given, mask, output)
    lead, q_shape = tuple(output.shape[:-2]), tuple(q.shape)
    laid = lay(q, k, v, output, place.heads or heads_of(place.module), alone="heads")
    q, k, v, output = laid
    if mask is not None:
        both = q.shape[:2] if q.dim() == 4 and len(lead) == 2 else split(lead, q.shape[1], alone="heads")
        mask = lay_mask(mask.detach(), lead, (both[0], both[1]))
    group = 1 if given.enable_gqa else folded_group(place, q_shape, k.shape[1])
    if group > 1:
        q, output = (x.flatten(1, 2).unsqueeze(2) for x in (q, output))
        mask = mask.flatten(1, 2).unsqueeze(2) if mask is not None and mask.shape[2] == group else mask
    boolean = mask is not None and mask.dtype == torch.bool
    return AttentionCall(
        q,
        k,
        v,
        output,
        scale=q.shape[-1] ** -0.5 if given.scale is None else float(given.scale),
        visible=mask if boolean else None,
        bias=None if boolean else mask,
        causal=causal,
        dropout=float(given.dropout_p),
        kind=place.kind,
        module=place.path,
        occurrence=place.occurrence,
        number=number,
    )


def _plain(
    given: Arguments, mask: Tensor | None, output: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    q, k, v = given.query, given.key, given.value
    if q.is_nested:
        return padded(q), padded(k), padded(v), padded(output), real_pairs(q, k)
    if mask is not None and mask.dim() < q.dim():
        mask = mask.reshape((1,) * (q.dim() - mask.dim()) + tuple(mask.shape))  # before vmap's axis comes in
    parts = unwrapped([q, k, v, output, mask])
    return parts[0], parts[1], parts[2], parts[3], parts[4]  # type: ignore[return-value]
