"""Encodings of a row and a column, under the property tests of encodings of a place in a line."""

import torch

from headwise.layers import PositionalEncoding


class OnALine(PositionalEncoding):
    """Place p is row p of a grid, so places k apart are one offset, whatever p is.

    For BEiT place 0 is the class token, so that a shift takes it away.
    """

    def __init__(self, encoding):
        super().__init__()
        self.encoding = encoding
        self.acts_on, self.relative = encoding.acts_on, encoding.relative
        self.any_length, self.cacheable, self.source = (
            encoding.any_length,
            encoding.cacheable,
            encoding.source,
        )

    def bias(self, q, k, query_positions, key_positions, visible):
        return self.encoding.bias(q, k, self.grid(query_positions), self.grid(key_positions), visible)

    def grid(self, positions):
        grid = torch.stack((positions, torch.zeros_like(positions)), dim=-1)
        return grid if self.relative else torch.where(grid[..., :1] == 0, -1, grid)
