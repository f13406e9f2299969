"""Sinks that a model gives to each row of its scores, as one logit for each head."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from headwise.look.calls.call import AttentionCall
from headwise.look.recordings.plainest import rounding


def even_sinks(
    call: AttentionCall,
) -> tuple[AttentionCall, Float[Tensor, " heads"] | None, Float[Tensor, "#batch #heads #query"]]:
    """The same probabilities with one sink for each head, the sinks, and what was added to each row for it.

    A softmax does not change if one number is added to a whole row, so rows of other sinks become alike.

    >>> x, sinks = torch.zeros(1, 1, 2, 4), torch.tensor([1.0, 3.0])[None, None, :, None]
    >>> _, sinks, added = even_sinks(AttentionCall(x, x, x, x, scale=1.0, sinks=sinks))
    >>> sinks, added
    (tensor([3.]), tensor([[[2., 0.]]]))
    """
    if call.sinks is None:
        return call, None, call.q.new_zeros(1, 1, 1)
    of_rows = call.sinks.logsumexp(-1, keepdim=True)
    highest = of_rows.amax((0, 2, 3))
    added = highest[:, None, None] - of_rows
    alone = replace(call, sinks=None)
    if bool((added <= rounding(call, highest[:, None, None].abs())).all()):
        return alone, highest, added.new_zeros(1, 1, 1)
    shape = (*added.shape[:3], call.k.shape[2])
    bias = added.expand(shape) if call.bias is None else call.bias + added
    return replace(alone, bias=bias), highest, added[..., 0]
