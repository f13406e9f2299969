"""Says in headwise's terms what a hand-written attention computed."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.blocks import wide
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.layout import lay, split
from headwise.look.calls.place import Place, heads_of
from headwise.look.calls.trail import Found


def read_found(found: Found, place: Place, number: int) -> AttentionCall:
    """The call that a product, a softmax and a product make.

    What the model did between the first product and the softmax is read off the scores: where they are
    -inf nothing is visible, and what differs from ``scale * Q K^T`` by more than rounding is the bias.

    >>> from headwise.look.calls.trail import Step
    >>> x = torch.randn(1, 2, 3, 4)
    >>> scores = (x @ x.mT).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    >>> step = Step(x, x, scores.softmax(-1), "attn", scores=scores)
    >>> call = read_found(Found(step, x, scores.softmax(-1) @ x), Place("attn", None, "softmax"), 0)
    >>> call.bias is None, call.visible.shape
    (True, torch.Size([1, 2, 3, 3]))
    """
    step = found.step
    assert step.scores is not None
    scores = step.scores.detach()
    lead = tuple(scores.shape[:-2])
    heads = place.heads or heads_of(place.module)
    q, k, v, output = (_with_lead(x, lead) for x in (step.q, step.k, found.v, found.output))
    laid = lay(q, k, v, output, heads, alone="batch")
    both = split(lead, heads, alone="batch")
    if len(lead) == 3 and laid.q.shape[:2] != both:  # heads as two axes
        both = (laid.q.shape[0], laid.q.shape[1])
    scores = wide(scores.expand(*lead, -1, -1).reshape(*both, *scores.shape[-2:]))
    sinks = scores[..., laid.k.shape[2] :] if scores.shape[-1] > laid.k.shape[2] else None
    scores = scores[..., : laid.k.shape[2]]
    visible, bias = _between(laid.q, laid.k, scores, step.scale, step.scores.dtype)
    return AttentionCall(
        *laid,
        scale=step.scale,
        visible=visible,
        bias=bias,
        sinks=sinks,
        dropout=step.dropout,
        kind=place.kind,
        module=place.path,
        occurrence=place.occurrence,
        number=number,
    )


def _with_lead(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """The tensor with those leading axes, where it has as many elements in other ones."""
    if tuple(x.shape[:-2]) != lead and prod(x.shape[:-2]) == prod(lead):
        return x.reshape(*lead, *x.shape[-2:])
    return x


@torch.no_grad()
def _between(
    q: Tensor, k: Tensor, scores: Tensor, scale: float, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """What is visible and what was added, None for everything and for nothing but rounding."""
    queries, keys = wide(q) * scale, wide(k).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    with without_autocast(q.device):
        product = queries @ keys.transpose(-1, -2)
        reach = queries.norm(dim=-1, keepdim=True) * keys.norm(dim=-1)[..., None, :]
    visible = ~scores.isneginf()
    bias = (scores - product).masked_fill(~visible, 0.0)
    # a dot product of n terms is off by at most n * eps * |q| |k|, and each later step by one eps more
    rounding = (q.shape[-1] + 4) * torch.finfo(dtype).eps * reach
    added = not bool((bias.abs() <= rounding).all())
    return (None if bool(visible.all()) else visible), (bias if added else None)
