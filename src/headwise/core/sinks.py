"""Sinks: logits that take part in the softmax and are no key."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import described, is_one_of


def sinks_of_queries(
    sinks: Tensor | None, shape: tuple[int, int, int], *, who: str
) -> Float[Tensor, "batch heads query"] | None:
    """One logit for each query of ``shape`` from one for each head, or for each query; None for none.

    >>> sinks_of_queries(torch.zeros(8), (2, 8, 5), who="attention").shape
    torch.Size([2, 8, 5])
    """
    batch, heads, queries = shape
    if sinks is None:
        return None
    if isinstance(sinks, Tensor) and sinks.is_floating_point():
        of_queries = sinks[None, :, None] if sinks.dim() == 1 else sinks
        if is_one_of(of_queries.shape, (1, heads, 1), (1, heads, queries), shape):
            return of_queries.expand(shape)
    raise HeadwiseError(
        who=who,
        what="sinks",
        expected=f"logits of shape [{heads}], or [{batch}, {heads}, {queries}] where batch may be 1",
        got=described(sinks),
        why="Each query head has one, or each query of each head",
        do="Pass the layer's sink parameter, flattened, or the scores of the sink column",
    )
