"""A layer, a norm and a way around them: the two orders in use."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.inputs import check_dropout
from headwise.layers.resetting import reset_children


class Residual(nn.Module):
    """A layer with a way around it; a subclass says where the norm stands.

    Args:
        layer: attention, an MLP, or anything from ``[batch length model_dim]`` to the same.
        norm: such as ``nn.LayerNorm(model_dim)`` or ``nn.RMSNorm(model_dim)``.
        dropout: share of the layer's output dropped in training.

    Raises HeadwiseError for a dropout that is no rate.

    >>> class NoNorm(Residual):
    ...     def forward(self, x):
    ...         return x + self.dropout(self.layer(x))
    >>> NoNorm(torch.nn.Identity(), torch.nn.Identity())(torch.ones(1, 2, 2)).tolist()
    [[[2.0, 2.0], [2.0, 2.0]]]
    """

    def __init__(self, layer: nn.Module, norm: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        check_dropout(dropout, who=type(self).__name__)
        self.layer, self.norm, self.dropout = layer, norm, nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draw the weights of the layer and of the norm anew."""
        reset_children(self)


class PreNorm(Residual):
    """``x + dropout(layer(norm(x)))``: the way around stays free, and a stack ends with a norm of its own.

    Xiong et al. 2020, arXiv 2002.04745, figure 1 (b); GPT-2, Llama, T5.

    >>> block = PreNorm(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    >>> block(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], *others: object, **options: object
    ) -> Float[Tensor, "batch length model_dim"]:
        """What else is given goes to the layer as it is: a memory, masks, positions."""
        out: Tensor = x + self.dropout(self.layer(self.norm(x), *others, **options))
        return out


class PostNorm(Residual):
    """``norm(x + dropout(layer(x)))``: the order of the first Transformer, and of BERT.

    Vaswani et al. 2017, arXiv 1706.03762, section 3.1.

    >>> block = PostNorm(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
    >>> block(torch.randn(2, 5, 8)).mean(-1).abs().max() < 1e-6
    tensor(True)
    """

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], *others: object, **options: object
    ) -> Float[Tensor, "batch length model_dim"]:
        """What else is given goes to the layer as it is: a memory, masks, positions."""
        out: Tensor = self.norm(x + self.dropout(self.layer(x, *others, **options)))
        return out
