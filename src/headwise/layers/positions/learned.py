"""One trained vector for each position, added to the embeddings."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.encoding import PositionalEncoding


class Learned(PositionalEncoding):
    """``embed(x, p) = x + table[p]``, for positions 0 to ``max_length - 1`` and no others.

    The table starts from a normal distribution of deviation ``std`` (0.02 in BERT and GPT-2). Gehring et al.
    2017, arXiv 1705.03122, section 3.1. Raises HeadwiseError at a position that has no row.

    >>> Learned(max_length=512, model_dim=8).embed(torch.zeros(2, 5, 8), torch.arange(5)).shape
    torch.Size([2, 5, 8])
    """

    acts_on = ("embeddings",)
    relative = False
    any_length = False
    cacheable = True
    source = "Gehring et al. 2017, arXiv 1705.03122, section 3.1"

    def __init__(self, max_length: int, model_dim: int, *, std: float = 0.02) -> None:
        super().__init__()
        check_positive(max_length, who="Learned", what="max_length")
        check_positive(model_dim, who="Learned", what="model_dim")
        self.std = std
        self.table = nn.Parameter(torch.empty(max_length, model_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.std)

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        max_length, model_dim = self.table.shape
        if x.shape[-1] != model_dim:
            raise HeadwiseError(
                who="Learned",
                what="x",
                expected=f"[batch, length, model_dim={model_dim}]",
                got=str(list(x.shape)),
                why="The table holds vectors of that width",
                do=f"Build Learned({max_length}, {x.shape[-1]})",
            )
        can_be_read = not torch.compiler.is_compiling() and not positions.is_meta and positions.numel() > 0
        if can_be_read:
            low, high = positions.aminmax()
            if low < 0 or high >= max_length:
                raise HeadwiseError(
                    who="Learned",
                    what="positions",
                    expected=f"from 0 to {max_length - 1}",
                    got=f"{int(low)} to {int(high)}",
                    why="Each position needs a row of the table",
                    do="Shorten the input or build the table with a larger max_length",
                )
        return x + self.table[positions]

    def extra_repr(self) -> str:
        return f"max_length={self.table.shape[0]}, model_dim={self.table.shape[1]}"
