"""The raw position number, added to every dimension: here to show why nobody does that."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from headwise.layers.positions.encoding import PositionalEncoding


class Integers(PositionalEncoding):
    """``embed(x, p) = x + p``: the numbers grow with the sentence until they drown the words.

    >>> import torch
    >>> Integers().embed(torch.zeros(1, 3, 2), torch.arange(3))[0]
    tensor([[0., 0.],
            [1., 1.],
            [2., 2.]])
    """

    acts_on = ("embeddings",)
    relative = False
    any_length = True
    cacheable = True
    source = "a counter-example"

    def embed(
        self, x: Float[Tensor, "batch length model_dim"], positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        return (x + positions[..., None]).to(x.dtype)
