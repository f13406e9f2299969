"""Gates between the heads and their mixture: what a token lets each head say."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.shapes import check_positive


class OutputGate(nn.Module):
    """``sigmoid(x W^T + b)``, each head's output times its own gates, before the heads are mixed.

    Qiu et al. 2025, arXiv 2505.06708: a gate after attention, from the layer's input. Gates start
    near one half, as the projection's numbers are small. ``width`` is how many gates a token has.
    """

    def __init__(self, model_dim: int, width: int, *, bias: bool = True) -> None:
        super().__init__()
        self.projection = nn.Linear(model_dim, width, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch query model_dim"],
        heads: Float[Tensor, "batch heads query value_dim"],
    ) -> Float[Tensor, "batch heads query value_dim"]:
        """The heads' outputs, gated by the tokens ``x`` that asked."""
        open_to = self.projection(x).sigmoid()
        opened: Tensor = heads * open_to.unflatten(-1, (heads.shape[1], -1)).transpose(1, 2)
        return opened


class GatePerHead(OutputGate):
    """One gate for each head.

    Raises HeadwiseError if a size is not a count.

    >>> gate = GatePerHead(model_dim=8, heads=2)
    >>> gate(torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)).shape
    torch.Size([1, 2, 3, 4])
    """

    def __init__(self, model_dim: int, heads: int, *, bias: bool = True) -> None:
        check_positive(model_dim, who="GatePerHead", what="model_dim")
        check_positive(heads, who="GatePerHead", what="heads")
        super().__init__(model_dim, heads, bias=bias)


class GatePerChannel(OutputGate):
    """One gate for each channel of each head's output, ``heads * value_dim`` in all.

    Raises HeadwiseError if a size is not a count.

    >>> gate = GatePerChannel(model_dim=8, heads=2, value_dim=4)
    >>> gate(torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)).shape
    torch.Size([1, 2, 3, 4])
    """

    def __init__(self, model_dim: int, heads: int, value_dim: int, *, bias: bool = True) -> None:
        for what, size in (("model_dim", model_dim), ("heads", heads), ("value_dim", value_dim)):
            check_positive(size, who="GatePerChannel", what=what)
        super().__init__(model_dim, heads * value_dim, bias=bias)
