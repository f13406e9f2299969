"""Says a call's mask and bias in the plainest form."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headwise.look.calls.call import HIDING, AttentionCall


def plainest(call: AttentionCall) -> AttentionCall:
    """The same call: numbers that only hide become a mask, and a mask that only is causal becomes that.

    >>> x = torch.zeros(1, 1, 3, 4)
    >>> bias = torch.zeros(3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    >>> print(plainest(AttentionCall(x, x, x, x, scale=1.0, bias=bias[None, None])).mask)
    causal
    """
    call = _unshifted(call)
    bias, visible = call.bias, call.visible
    if bias is not None:
        hidden = bias <= HIDING
        if bool((hidden | (bias == 0)).all()):
            visible = ~hidden if visible is None else visible & ~hidden
            bias = None
    causal = call.causal
    if visible is not None and bool(visible.all()):
        visible = None
    elif visible is not None and causal is None and _is_causal(visible, call.k.shape[2] - call.q.shape[2]):
        visible, causal = None, "lower right"
    return replace(call, bias=bias, visible=visible, causal=causal)


def _is_causal(visible: Tensor, first_slot: int) -> bool:
    rows, keys = visible.shape[-2:]
    if first_slot < 0 or rows != keys - first_slot:
        return False
    triangle = torch.ones(rows, keys, dtype=torch.bool, device=visible.device).tril(first_slot)
    return bool((visible == triangle).all())


def _unshifted(call: AttentionCall) -> AttentionCall:
    """The call without what a model took off whole rows of its scores, as some do with the largest score.

    A softmax does not change by it, but sinks do, and the scores are no longer those of queries and keys.
    """
    bias = call.bias
    if bias is None or call.kind != "softmax":  # a mask that was given is what it is
        return call
    shown = bias > HIDING
    if call.visible is not None:
        shown = shown & call.visible
    high = bias.masked_fill(~shown, -torch.inf).amax(-1, keepdim=True)
    low = bias.masked_fill(~shown, torch.inf).amin(-1, keepdim=True)
    some = high >= low
    shift = ((high + low) / 2).masked_fill(~some, 0.0)
    even = (high - low <= _rounding(call, shift)) | ~some
    if not bool(shift.any()) or not bool(even.all()):
        return call
    flat = torch.where(shown, 0.0, -torch.inf)
    return replace(call, bias=flat, sinks=None if call.sinks is None else call.sinks - shift)


def _rounding(call: AttentionCall, shift: Tensor) -> Tensor:
    """How far the numbers of a row may be apart that were read off its scores and are one number.

    A dot product of n terms is off by at most ``n * eps * |q| |k|``, and each later step by one eps more.
    """
    longest = call.k.norm(dim=-1).amax(-1).repeat_interleave(call.heads // call.kv_heads, dim=1)
    reach: Tensor = (
        call.scale * call.q.norm(dim=-1, keepdim=True) * longest[..., None, None]
    ).abs() + shift.abs()
    return reach * (2 * (call.q.shape[-1] + 4) * torch.finfo(call.output.dtype).eps)
