"""Rows of slots side by side, though they differ in length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from headwise.layers.cache.entries import SHARED
from headwise.layers.cache.slots import Slots


def side_by_side(every: Sequence[Slots]) -> Slots:
    """The rows of all of them, those with fewer slots padded on the left by slots that are not real.

    >>> short, long = Slots(), Slots()
    >>> for slots, length in ((short, 1), (long, 2)):
    ...     x = torch.ones(1, 1, length, 1)
    ...     slots.extend({"k": x, "positions": x[..., 0].long()}, room=4)
    >>> side_by_side([short, long]).live("keep")[:, 0]
    tensor([[False,  True],
            [ True,  True]])
    """
    longest = max(slots.count for slots in every)
    padded = [_padded(slots, longest) for slots in every]
    joined = Slots()
    joined.tensors = {name: torch.cat([one[name] for one in padded]) for name in padded[0]}
    joined.stop = joined.room = longest
    return joined


def _padded(slots: Slots, longest: int) -> dict[str, Tensor]:
    live = {name: slots.live(name) for name in slots.tensors}
    rows, positions = live["k"].shape[0], live["positions"]
    live.setdefault("keep", torch.ones(1, 1, slots.count, dtype=torch.bool, device=positions.device))
    live.setdefault("following", positions + 1)
    for name in SHARED:
        live[name] = live[name].expand(rows, *live[name].shape[1:])
    missing = longest - slots.count
    return {name: pad(x, (*[0] * (2 * (x.dim() - 3)), missing, 0)) for name, x in live.items()}
