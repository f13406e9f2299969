"""One trained vector for each position, added to the embeddings."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_range
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.resizing import Grid, check_grid, resized_grid, resized_line


class Learned(PositionalEncoding):
    """``embed(x, p) = x + table[p]``, for positions 0 to ``max_length - 1`` and no others.

    The table starts from a normal distribution of deviation ``std`` (0.02 in BERT and GPT-2). Gehring et al.
    2017, arXiv 1705.03122, section 3.1. Raises HeadwiseError at a position that has no row.

    Some models do not begin at row 0. Positions say so: OPT's table is read at ``positions + 2``, RoBERTa's
    at ``positions + padding_idx + 1``, also + 2, where ``positions`` count a row's real tokens from 0, as
    ``Padding(keep).positions()`` does.

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
        check_range(
            positions,
            0,
            max_length - 1,
            who="Learned",
            what="positions",
            why="Each position needs a row of the table",
            do="Shorten the input or build the table with a larger max_length",
        )
        return x + self.table[positions]

    def resized(self, max_length: int) -> Learned:
        """The encoding for another number of positions, its vectors drawn linearly between the old ones.

        Row j is the old table at ``j * (old - 1) / (new - 1)``, so the first and the last row stay.

        >>> Learned(max_length=512, model_dim=8).resized(2048).table.shape
        torch.Size([2048, 8])
        """
        check_positive(max_length, who="Learned", what="max_length")
        return self._with(resized_line(self.table.detach(), max_length))

    def resized_grid(self, grid: Grid, new_grid: Grid, *, first: int = 0, antialias: bool = False) -> Learned:
        """The encoding of an image's patches, row by row, for another number of rows and columns.

        Bicubic between the old vectors, each at the centre of its patch (Dosovitskiy et al. 2020, arXiv
        2010.11929, section 3.2). The grid is given, since a table of 144 rows may be 12 x 12 or 16 x 9. The
        ``first`` rows, for a class token and the like, stay as they are. ``antialias`` averages where the new
        grid is coarser. Raises HeadwiseError for a grid that is not the table's.

        >>> Learned(max_length=1 + 14 * 10, model_dim=8).resized_grid((14, 10), (20, 16), first=1).table.shape
        torch.Size([321, 8])
        """
        check_grid(grid, who="Learned", what="grid")
        check_grid(new_grid, who="Learned", what="new_grid")
        table = self.table.detach()
        if first < 0 or first + grid[0] * grid[1] != len(table):
            raise HeadwiseError(
                who="Learned",
                what="grid",
                expected=f"that of the table's {len(table)} rows",
                got=f"{grid[0]} x {grid[1]} after the first {first}",
                why="A row of the table is one patch",
                do="Give the rows and columns the table was trained with, and how many rows come first",
            )
        drawn = resized_grid(table[first:], grid, new_grid, antialias)
        return self._with(torch.cat((table[:first], drawn)))

    def _with(self, table: Tensor) -> Learned:
        twin = copy.deepcopy(self)
        twin.table = nn.Parameter(table)
        return twin

    def extra_repr(self) -> str:
        return f"max_length={self.table.shape[0]}, model_dim={self.table.shape[1]}"
