"""Products of an attention map with anything that has a row for each key or for each query."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.map_inputs import check_batched
from headwise.core.map_pieces import Piece


def product(
    weights: Float[Tensor, "batch heads rows columns"], values: Float[Tensor, "#batch #heads columns width"]
) -> Float[Tensor, "batch heads rows width"]:
    """``weights @ values`` in the dtype of the weights, whatever autocast says; passes no gradient.

    >>> product(torch.full((1, 2, 3, 4), 0.25), torch.ones(1, 1, 4, 1)).squeeze()
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    values = values.detach().to(weights)
    with without_autocast(weights.device):
        if values.shape[:2] == (1, 1):  # to broadcast it would make a copy for each head
            flat = weights.flatten(0, 2) @ values[0, 0]
            return flat.view(*weights.shape[:3], values.shape[3])
        return torch.matmul(weights, values)


class Transposed:
    """``P^T`` of a map: what comes to each key from all queries.

    >>> from headwise.core import AttentionMap
    >>> x = torch.zeros(1, 1, 2, 4)
    >>> (AttentionMap(x, x).T @ torch.ones(1, 1, 2, 1))[0, 0, :, 0]
    tensor([1., 1.])
    """

    def __init__(
        self, pieces: Callable[[], Iterator[Piece]], shape: tuple[int, int, int, int], like: Tensor
    ) -> None:
        self._pieces, self._like = pieces, like
        batch, heads, queries, keys = shape
        self.shape = batch, heads, keys, queries

    def __matmul__(
        self, values: Float[Tensor, "#batch #heads query columns"]
    ) -> Float[Tensor, "batch heads key columns"]:
        """``P^T W``: the sum over queries of what each gives to a key, times its row of ``values``."""
        batch, heads, keys, queries = self.shape
        check_batched(values, (batch, heads, queries), what="values")
        total = self._like.new_zeros(batch, heads, keys, values.shape[-1], dtype=torch.float64)
        for piece in self._pieces():
            total[:, :, piece.columns] += product(piece.weights.mT, values[:, :, piece.rows])
        return total.to(self._like.dtype)
