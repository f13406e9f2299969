"""What each token does by itself between two rounds of attention."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headwise.core.inputs import check_dropout
from headwise.core.shapes import check_positive

Activation = Callable[[Tensor], Tensor]


class MLP(nn.Module):
    """Two projections and a bend: ``MLP(x) = dropout(activation(x W_inner + b_inner)) W_outer + b_outer``.

    Vaswani et al. 2017, arXiv 1706.03762, section 3.3, eq. (2), there with ReLU. ``hidden_dim`` is four times
    ``model_dim`` unless given. Raises HeadwiseError for a width below 1 or a dropout that is no rate.

    >>> MLP(8)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        model_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: Activation = functional.gelu,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        hidden_dim = _checked(model_dim, hidden_dim, dropout, who="MLP")
        self.activation = activation
        self.inner = nn.Linear(model_dim, hidden_dim, bias=bias)
        self.outer = nn.Linear(hidden_dim, model_dim, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot and Bengio 2010) and set the biases to zero."""
        _reset(self.inner, self.outer)

    def forward(self, x: Float[Tensor, "*batch model_dim"]) -> Float[Tensor, "*batch model_dim"]:
        """The same for every token, whatever stands beside it."""
        out: Tensor = self.outer(self.dropout(self.activation(self.inner(x))))
        return out


class GatedMLP(nn.Module):
    """One projection decides how much of the other passes: ``(activation(x W_gate) * (x W_inner)) W_outer``.

    Shazeer 2020, arXiv 2002.05202, eq. (6): SwiGLU with the default activation, GEGLU with GELU. With three
    matrices, ``hidden_dim`` is 8/3 of ``model_dim`` unless given, so that it costs what an MLP costs;
    rounded up. Raises HeadwiseError for a width below 1 or a dropout that is no rate.

    >>> layer = GatedMLP(9)
    >>> layer.inner.out_features, layer(torch.randn(2, 5, 9)).shape
    (24, torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        model_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: Activation = functional.silu,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if hidden_dim is None:
            check_positive(model_dim, who="GatedMLP", what="model_dim")
            hidden_dim = -(-8 * model_dim // 3)
        hidden_dim = _checked(model_dim, hidden_dim, dropout, who="GatedMLP")
        self.activation = activation
        self.gate = nn.Linear(model_dim, hidden_dim, bias=bias)
        self.inner = nn.Linear(model_dim, hidden_dim, bias=bias)
        self.outer = nn.Linear(hidden_dim, model_dim, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot and Bengio 2010) and set the biases to zero."""
        _reset(self.gate, self.inner, self.outer)

    def forward(self, x: Float[Tensor, "*batch model_dim"]) -> Float[Tensor, "*batch model_dim"]:
        """The same for every token, whatever stands beside it."""
        out: Tensor = self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))
        return out


def _checked(model_dim: int, hidden_dim: int | None, dropout: float, *, who: str) -> int:
    check_positive(model_dim, who=who, what="model_dim")
    hidden_dim = 4 * model_dim if hidden_dim is None else hidden_dim
    check_positive(hidden_dim, who=who, what="hidden_dim")
    check_dropout(dropout, who=who)
    return hidden_dim


def _reset(*projections: nn.Linear) -> None:
    for projection in projections:
        nn.init.xavier_uniform_(projection.weight)
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)
