"""What every opened model is: a name and a network."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Model:
    """A network in evaluation mode, and the name to call it by.

    This is all there is of a plain PyTorch model: it takes tensors, and no text.

    >>> Model("tiny", nn.Linear(2, 3).eval()).network(torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """

    name: str
    network: nn.Module
