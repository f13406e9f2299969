"""What a head's weights carry: the length of each value behind the output layer, as a bias on its key."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.block import BiasFunction
from headwise.core.blocks import wide


@torch.no_grad()
def lengths_of(
    v: Float[Tensor, "batch kv_heads key value_dim"],
    output_weight: Float[Tensor, "model_dim width"],
    heads: int,
) -> Float[Tensor, "batch heads key"]:
    """``||W_o v_j||`` for each head, with that head's columns of ``W_o``.

    >>> lengths_of(torch.ones(1, 1, 1, 2), torch.eye(4), heads=2)
    tensor([[[1.4142],
             [1.4142]]])
    """
    width = v.shape[3]
    of_heads = wide(output_weight).view(-1, heads, width).transpose(0, 1).to(wide(v))
    with without_autocast(v.device):
        square = of_heads.mT @ of_heads  # [heads width width]: no vector of model_dim for each key and head
        v = wide(v).repeat_interleave(heads // v.shape[1], dim=1)
        return ((v @ square) * v).sum(-1).clamp(min=0.0).sqrt()


def with_key_bias(
    bias: Float[Tensor, "#batch #heads query key"] | BiasFunction | None,
    of_keys: Float[Tensor, "batch heads key"],
) -> BiasFunction:
    """The bias and one number more for each key.

    >>> added = with_key_bias(None, torch.tensor([[[1.0, 2.0, 3.0]]]))
    >>> added(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), slice(0, 2), slice(1, 3), None)
    tensor([[[[2., 3.],
              [2., 3.]]]])
    """

    def both(q: Tensor, k: Tensor, rows: slice | Tensor, columns: slice, visible: Tensor | None) -> Tensor:
        added = of_keys[:, :, None, columns].expand(-1, -1, q.shape[2], -1)
        if bias is None:
            return added
        if isinstance(bias, Tensor):
            return bias[:, :, rows][..., columns] + added
        return bias(q, k, rows, columns, visible) + added

    return both
