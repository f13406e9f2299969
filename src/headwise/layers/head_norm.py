"""Queries and keys of each head, normalised before they are turned or after."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class HeadNorm(nn.Module):
    """A norm for the queries and one for the keys, each over ``head_dim``; a subclass says when they act.

    Keys are normalised before a cache takes them, so what it holds stays valid.
    """

    def __init__(self, query: nn.Module, key: nn.Module) -> None:
        super().__init__()
        self.query, self.key = query, key

    def before(
        self, q: Float[Tensor, "batch heads query head_dim"], k: Float[Tensor, "batch kv_heads key head_dim"]
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        """What the encoding gets to turn."""
        return q, k

    def after(
        self, q: Float[Tensor, "batch heads query head_dim"], k: Float[Tensor, "batch kv_heads key head_dim"]
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        """What scores are made of."""
        return q, k


class NormBeforeRotation(HeadNorm):
    """``R_p norm(q)`` and ``R_p norm(k)``: as Qwen3 and Gemma 3 do it.

    Dehghani et al. 2023, arXiv 2302.05442, without a rotation; the order is that of Qwen3, Yang
    et al. 2025, arXiv 2505.09388. With a weight for each dimension the two orders are different functions.

    >>> norm = NormBeforeRotation(torch.nn.RMSNorm(2), torch.nn.RMSNorm(2))
    >>> q, k = norm.before(torch.tensor([[[[3.0, 4.0]]]]), torch.ones(1, 1, 1, 2))
    >>> q.detach()
    tensor([[[[0.8485, 1.1314]]]])
    """

    def before(
        self, q: Float[Tensor, "batch heads query head_dim"], k: Float[Tensor, "batch kv_heads key head_dim"]
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        return self.query(q), self.key(k)


class NormAfterRotation(HeadNorm):
    """``norm(R_p q)`` and ``norm(R_p k)``: as Llama 4, whose norm has no weight, and torchtune do it.

    A weight that differs within a pair of dimensions does not commute with the turn: scores then depend on
    where two tokens stand, not on their distance alone.

    >>> norm = NormAfterRotation(torch.nn.RMSNorm(2), torch.nn.RMSNorm(2))
    >>> q = torch.ones(1, 1, 1, 2)
    >>> norm.before(q, q)[0] is q
    True
    """

    def after(
        self, q: Float[Tensor, "batch heads query head_dim"], k: Float[Tensor, "batch kv_heads key head_dim"]
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        return self.query(q), self.key(k)
