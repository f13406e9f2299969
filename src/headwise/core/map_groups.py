"""Sums over groups of a map's rows: each number is read once, and groups of any size and order will do."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag


def sums_of_groups(
    x: Float[Tensor, "batch heads rows width"],
    group: Int[Tensor, " rows"],
    groups: int,
    count: Float[Tensor, "batch rows"] | None = None,
) -> Float[Tensor, "batch heads groups width"]:
    """The sum of each group's rows, zeros for a group without any; ``count`` says how much each row counts.

    >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]])
    >>> sums_of_groups(x, torch.tensor([2, 0, 2]), 3)[0, 0]
    tensor([[3., 4.],
            [0., 0.],
            [6., 8.]])
    """
    batch, heads, rows, width = x.shape
    order = group.argsort(stable=True)
    members = torch.bincount(group, minlength=groups)
    tables = rows * torch.arange(batch * heads, device=x.device)[:, None]
    counts = None if count is None else count[:, None, order].expand(-1, heads, -1).flatten()
    sums: Tensor = embedding_bag(
        (order + tables).flatten(),
        x.reshape(batch * heads * rows, width),
        (members.cumsum(0) - members + tables).flatten(),
        mode="sum",
        per_sample_weights=counts,
    )
    return sums.view(batch, heads, groups, width)
