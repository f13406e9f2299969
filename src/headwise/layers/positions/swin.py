"""A learned number for each offset in a window of an image; in BEiT a class token has numbers of its own."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads, check_range, grid_differences, looked_up
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.resizing import Grid, check_grid, resized_grid


class SwinTable(PositionalEncoding):
    """``bias_h(i, j) = table[(r_i - r_j, c_i - c_j), h]`` for positions of a row and a column each.

    Positions are ``[length, 2]`` or ``[batch, length, 2]``. The table has one row for each of the ``(2 rows -
    1) (2 columns - 1)`` offsets in a window of ``window = (rows, columns)``: by row offset from ``1 - rows``
    up, then by column offset. Liu et al. 2021, arXiv 2103.14030, eq. (4). Raises HeadwiseError at an offset
    that has no row.

    Args:
        heads: number of query heads.
        window: rows and columns of the largest grid of tokens that attend to each other.
        std: deviation of the normal distribution the table starts from.

    >>> patches = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    >>> q = torch.zeros(1, 4, 6, 8)
    >>> SwinTable(heads=4, window=(2, 3)).bias(q, q, patches, patches, None).shape
    torch.Size([1, 4, 6, 6])
    """

    acts_on = ("scores",)
    axes = 2
    relative = True
    any_length = False
    cacheable = True
    source = "Liu et al. 2021, arXiv 2103.14030, eq. (4)"
    per_head = (("table", 1),)
    _more_rows = 0

    def __init__(self, heads: int, window: Grid, *, std: float = 0.02) -> None:
        super().__init__()
        check_positive(heads, who=type(self).__name__, what="heads")
        check_grid(window, who=type(self).__name__, what="window")
        self.heads, self.window, self.std = heads, window, std
        rows, columns = window
        self.table = nn.Parameter(torch.empty((2 * rows - 1) * (2 * columns - 1) + self._more_rows, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.std)

    def resized(self, window: Grid, *, antialias: bool = False) -> SwinTable:
        """The encoding for another window, its table drawn bicubically between the old offsets.

        >>> SwinTable(heads=4, window=(7, 7)).resized((12, 8)).table.shape
        torch.Size([345, 4])
        """
        check_grid(window, who=type(self).__name__, what="window")
        old, new = ((2 * rows - 1, 2 * columns - 1) for rows, columns in (self.window, window))
        offsets = len(self.table) - self._more_rows
        drawn = resized_grid(self.table.detach()[:offsets], old, new, antialias)
        twin = copy.deepcopy(self)
        twin.window = window
        twin.table = nn.Parameter(torch.cat((drawn, self.table.detach()[offsets:])))
        return twin

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query 2"],
        key_positions: Int[Tensor, "*batch key 2"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who=type(self).__name__)
        index = self._row(query_positions, key_positions)
        return looked_up(self.table, index, torch.promote_types(q.dtype, torch.float32))

    def _row(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        by_row, by_column = grid_differences(query_positions, key_positions).unbind(-1)
        return self._offset_row(by_row, by_column)

    def _offset_row(self, by_row: Tensor, by_column: Tensor) -> Tensor:
        rows, columns = self.window
        for offset, side, what in ((by_row, rows, "rows apart"), (by_column, columns, "columns apart")):
            check_range(
                offset,
                1 - side,
                side - 1,
                who=type(self).__name__,
                what=what,
                why=f"The table holds the offsets of a window of {rows} rows and {columns} columns",
                do="Cut the image into windows, or use resized(window) for a larger one",
            )
        return (by_row + rows - 1) * (2 * columns - 1) + by_column + columns - 1

    def extra_repr(self) -> str:
        return f"heads={self.heads}, window={self.window}"


class BEiTTable(SwinTable):
    """SwinTable with three more rows: class token to patch, patch to class token, class token to itself.

    The class token is at position ``(-1, -1)``: any row below 0 says so. The three rows come last in the
    table, in that order, the query first. Because the class token is told by its position, a shift of all
    positions is noticed, and the claim "relative" is False. Bao et al. 2021, arXiv 2106.08254; the three
    rows are from the authors' code. Raises HeadwiseError at an offset that has no row.

    >>> patches = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    >>> tokens = torch.cat((torch.tensor([[-1, -1]]), patches))
    >>> q = torch.zeros(1, 4, 7, 8)
    >>> BEiTTable(heads=4, window=(2, 3)).bias(q, q, tokens, tokens, None).shape
    torch.Size([1, 4, 7, 7])
    """

    relative = False
    source = "Bao et al. 2021, arXiv 2106.08254"
    _more_rows = 3

    def _row(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        from_class = query_positions[..., :, None, 0] < 0
        to_class = key_positions[..., None, :, 0] < 0
        by_row, by_column = grid_differences(query_positions, key_positions).unbind(-1)
        patches = ~(from_class | to_class)
        index = self._offset_row(by_row * patches, by_column * patches)
        last = len(self.table) - 1
        named = torch.where(from_class, torch.where(to_class, last, last - 2), last - 1)
        return torch.where(patches, index, named)
