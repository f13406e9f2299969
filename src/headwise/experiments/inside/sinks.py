"""The places of a text that heads give much of their attention to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.experiments.inside.inspection import Sink
from headwise.look.recordings.sums import Sums

_SHOWN = 5
_SEEN_BY = 1 / 2  # of the rows: in causal attention few see the last places, and those are the nearest


def sinks_of(layers: Sequence[Sums], tokens: list[str]) -> list[Sink]:
    """The places that lead in most heads, over the layers whose keys are the tokens; at most five.

    >>> sums = Sums.empty(heads=1)
    >>> sums.received, sums.could = torch.tensor([[1.0, 1.2, 0.9]]), torch.tensor([3.0, 2.0, 1.0])
    >>> [(sink.place, sink.token, sink.leads) for sink in sinks_of([sums], ["The", " cat", " sat"])]
    [(1, ' cat', 1)]
    """
    length = len(tokens)
    sums = [layer for layer in layers if layer.received.shape[1] == length]
    if not sums:
        return []
    on = torch.cat([_where_seen(layer.attention_on(), layer.could) for layer in sums])
    highest, leaders = on.max(1)
    leads = torch.bincount(leaders, minlength=length)
    places = leads.argsort(descending=True, stable=True)[:_SHOWN].tolist()
    return [
        Sink(
            place,
            tokens[place],
            int(leads[place]),
            float(highest[leaders == place].mean()),
            float(on[:, place].clamp(min=0.0).mean()),
        )
        for place in places
        if leads[place]
    ]


def _where_seen(on: Tensor, could: Tensor) -> Tensor:
    """Minus 1 for places that few rows see."""
    enough = could >= _SEEN_BY * could.max()
    return on.nan_to_num(nan=-1.0).masked_fill(~enough, -1.0)
