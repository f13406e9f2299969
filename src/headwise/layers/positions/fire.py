"""A small network's answer to how far back a key lies, as a share of how far back one could look."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.autocast import without_autocast
from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads, differences
from headwise.layers.positions.encoding import PositionalEncoding


class Fire(PositionalEncoding):
    """``bias(i, j) = f(psi(|p_i - p_j|) / psi(max(L, p_i)))`` with ``psi(x) = log(1 + c x)``.

    f is a network of one hidden layer of ``width`` ReLUs, with an output for each head. c and the threshold L
    are learned and stay above 0, as exponentials of ``log_c`` and ``log_threshold``, so nothing is divided by
    0. The denominator needs the query's position itself, not only the distance: a query further back than L
    is read on a scale of its own length. So the claim "relative" is False; shifted positions give the same
    only while every query stands at L or before it. Li et al. 2023, arXiv 2310.04418.

    The paper's queries look back, and then the share lies between 0 and 1. A key after the query is taken at
    its distance too, whose share may be above 1.

    Args:
        heads: number of query heads.
        width: of the network's hidden layer.
        threshold: what L starts from.
        c: what c starts from.

    Raises HeadwiseError for a threshold or a c that is not above 0.

    >>> fire = Fire(heads=8)
    >>> q = torch.zeros(1, 8, 3, 64)
    >>> fire.bias(q, q, torch.arange(3), torch.arange(3), None).shape
    torch.Size([1, 8, 3, 3])
    """

    acts_on = ("scores",)
    relative = False
    any_length = True
    cacheable = True
    source = "Li et al. 2023, arXiv 2310.04418"
    per_head = (("out.weight", 0), ("out.bias", 0))

    def __init__(self, heads: int, *, width: int = 32, threshold: float = 512.0, c: float = 0.1) -> None:
        super().__init__()
        check_positive(heads, who="Fire", what="heads")
        check_positive(width, who="Fire", what="width")
        _check_above_0(threshold, "threshold", "512")
        _check_above_0(c, "c", "0.1")
        self.heads, self._start = heads, (c, threshold)
        self.log_c = nn.Parameter(torch.empty(()))
        self.log_threshold = nn.Parameter(torch.empty(()))
        self.hidden = nn.Linear(1, width)
        self.out = nn.Linear(width, heads)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set c and the threshold to where they start, and draw the network anew."""
        for parameter, start in zip((self.log_c, self.log_threshold), self._start, strict=True):
            nn.init.constant_(parameter, math.log(start))
        self.hidden.reset_parameters()
        self.out.reset_parameters()

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="Fire")
        dtype = torch.promote_types(q.dtype, torch.float32)
        distance = differences(query_positions, key_positions).abs().to(dtype)
        c, threshold = self.log_c.to(dtype).exp(), self.log_threshold.to(dtype).exp()
        reach = torch.maximum(query_positions.to(dtype), threshold)[..., :, None]
        share = torch.log1p(c * distance) / torch.log1p(c * reach)
        with without_autocast(q.device):
            hidden = share[..., None] * self.hidden.weight[:, 0].to(dtype) + self.hidden.bias.to(dtype)
            added = nn.functional.linear(hidden.relu(), self.out.weight.to(dtype), self.out.bias.to(dtype))
        return added.permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


def _check_above_0(value: object, what: str, usual: str) -> None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return
    raise HeadwiseError(
        who="Fire",
        what=what,
        expected="a finite number above 0",
        got=repr(value),
        why="It is learned as a logarithm",
        do=f"Use {usual}, where the published code starts",
    )
