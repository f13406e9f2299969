"""Sums over the keys from one key up to a query, of those keys that the query may see."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.layers.positions.distances import can_be_read


def counted(
    gates: Float[Tensor, "#batch heads #query key"],
    query_positions: Int[Tensor, "*batch query"],
    key_positions: Int[Tensor, "*batch key"],
    visible: Bool[Tensor, "#rows #heads query key"] | None,
) -> tuple[Float[Tensor, "batch heads query key"], Float[Tensor, "batch heads query key"]]:
    """For query i and key j the sum of ``gates`` over the visible keys from j to i, and what j adds to it.

    From j to i means by position: those that do not stand before j nor after i. A key that i does not see
    adds nothing, and so does one that stands after i.

    >>> at = torch.arange(4)
    >>> counted(torch.ones(1, 1, 1, 4), at[2:3], at, None)[0]
    tensor([[[[3., 2., 1., 0.]]]])
    """
    after = key_positions[..., None, :] > query_positions[..., :, None]
    after = after[:, None] if after.dim() == 3 else after[None, None]
    counting = gates.masked_fill(after if visible is None else after | ~visible, 0.0)
    order = _order(key_positions)
    if order is None:
        return counting.flip(-1).cumsum(-1).flip(-1), counting
    in_order = counting.gather(-1, _expanded(order, counting))
    sums = in_order.flip(-1).cumsum(-1).flip(-1)
    return sums.gather(-1, _expanded(order.argsort(-1), counting)), counting


def _order(positions: Tensor) -> Tensor | None:
    """Which key comes first, second, ..; None where they are known to be in order, which saves two copies."""
    if can_be_read(positions) and bool((positions.diff(dim=-1) >= 0).all()):
        return None
    return positions.argsort(dim=-1, stable=True)


def _expanded(order: Tensor, like: Tensor) -> Tensor:
    order = order[:, None, None] if order.dim() == 2 else order
    return order.expand(like.shape)
