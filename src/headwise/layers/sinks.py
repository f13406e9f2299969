"""A learned logit for each head that takes its share of the softmax and belongs to no key."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.shapes import check_positive


class Sinks(nn.Module):
    """One logit ``t_h`` for each head: ``p_ij = exp(s_ij) / (exp(t_h) + sum_k exp(s_ik))``.

    A head that has nothing to say can then give its attention to nothing. OpenAI 2025, arXiv 2508.10925 (the
    gpt-oss models); Xiao et al. 2023, arXiv 2309.17453, on why heads look for such a place.

    Args:
        heads: number of query heads.
        logit: where every head starts; 0 is the "softmax plus one".

    Raises HeadwiseError if heads is not a count.

    >>> Sinks(heads=2).logits
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, heads: int, logit: float = 0.0) -> None:
        super().__init__()
        check_positive(heads, who="Sinks", what="heads")
        self.logit = logit
        self.logits = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every logit to where it starts."""
        nn.init.constant_(self.logits, self.logit)

    def extra_repr(self) -> str:
        return f"heads={len(self.logits)}"


def logits_of(
    sinks: Sinks | float | None, q: Float[Tensor, "batch heads query head_dim"]
) -> Float[Tensor, " heads"] | None:
    """The logit of each head of ``q``: those learned, one number for all, or None.

    >>> logits_of(0.5, torch.zeros(1, 2, 3, 4))
    tensor([0.5000, 0.5000])
    """
    if sinks is None or isinstance(sinks, Sinks):
        return None if sinks is None else sinks.logits
    return q.new_full((q.shape[1],), sinks, dtype=torch.promote_types(q.dtype, torch.float32))
