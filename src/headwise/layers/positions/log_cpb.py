"""A small network's answer to how many rows and columns apart two patches are, on a logarithmic scale."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.autocast import without_autocast
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.log_cpb_compiled import bias_in_one_step, takes_one_step
from headwise.layers.positions.log_cpb_network import Network, bias_of
from headwise.layers.positions.resizing import Grid, check_grid


class LogCPB(PositionalEncoding):
    """``bias(i, j) = 16 sigmoid(f(s(r_i - r_j, rows), s(c_i - c_j, columns)))``: log-spaced continuous bias.

    ``s(x, side) = sign(x) log2(1 + 8 |x| / (side - 1)) / log2(8)``, so an offset of the whole window in
    which it was trained is about 1. f is a network of one hidden layer of ``width`` ReLUs with an output for
    each head, so windows of any size will do. Positions are a row and a column each, ``[length, 2]`` or
    ``[batch, length, 2]``. The network is asked once for each different offset of a block, not for each pair,
    compiled or not; for each pair in an exported program, or where torch.func is at work in compiled code.
    Liu et al. 2021, arXiv 2111.09883, section 3.3; the constants 8 and 16 are from the authors' code.

    Args:
        heads: number of query heads.
        window: rows and columns of the window the network is trained in, whatever the window in use.
        width: of the network's hidden layer.

    >>> patches = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    >>> q = torch.zeros(1, 4, 6, 8)
    >>> LogCPB(heads=4, window=(2, 3)).bias(q, q, patches, patches, None).shape
    torch.Size([1, 4, 6, 6])
    """

    acts_on = ("scores",)
    axes = 2
    relative = True
    any_length = True
    cacheable = True
    source = "Liu et al. 2021, arXiv 2111.09883, section 3.3"
    per_head = (("out.weight", 0),)

    def __init__(self, heads: int, window: Grid, *, width: int = 512) -> None:
        super().__init__()
        check_positive(heads, who="LogCPB", what="heads")
        check_positive(width, who="LogCPB", what="width")
        check_grid(window, who="LogCPB", what="window")
        self.heads, self.window = heads, window
        self.hidden = nn.Linear(2, width)
        self.out = nn.Linear(width, heads, bias=False)

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query 2"],
        key_positions: Int[Tensor, "*batch key 2"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="LogCPB")
        dtype = torch.promote_types(q.dtype, torch.float32)
        weights = (self.hidden.weight.to(dtype), self.hidden.bias.to(dtype), self.out.weight.to(dtype))
        if takes_one_step():
            bias: Tensor = bias_in_one_step(query_positions, key_positions, list(self.window), *weights)
            return bias
        with without_autocast(q.device):
            return bias_of(query_positions, key_positions, Network(self.window, *weights))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, window={self.window}"
