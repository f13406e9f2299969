"""The multi-head attention layer."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core import AttentionMap, Mask, attention
from headwise.layers.layer_arguments import (
    check_embeddings,
    check_options,
    check_sizes,
    refuse_lone_memory_positions,
    token_positions,
)
from headwise.layers.positions import NoPosition, PositionalEncoding


class Attended(NamedTuple):
    """What the layer gave, and the weights each head gave it by: read in any way, dense by ``.dense()``."""

    output: Float[Tensor, "batch query model_dim"]
    weights: AttentionMap


class MultiHeadAttention(nn.Module):
    """Several heads, each with its own projection of the whole embedding, concatenated and mixed.

    ``head_h = attention(x W_q_h, m W_k_h, m W_v_h)`` and ``output = concat(head_1 .. head_H) W_o``, where
    ``m`` is the memory, or ``x`` itself in self-attention. Vaswani et al. 2017, arXiv 1706.03762, section
    3.2.2. With ``kv_heads < heads`` several query heads share a key/value head: Ainslie et al. 2023, arXiv
    2305.13245. The number of parameters does not depend on the number of heads.

    Args:
        model_dim: width of the input and of the output.
        heads: number of query heads; must divide model_dim unless head_dim is given.
        kv_heads: number of key/value heads, ``heads`` unless given; must divide heads.
        head_dim: width of one head, ``model_dim / heads`` unless given.
        memory_dim: width of the memory in cross-attention, ``model_dim`` unless given.
        position: how tokens learn where they stand. What acts on embeddings is added to this layer's input,
            so in a stack of layers give it to the first alone.
        mask: holds for every call, for example ``Causal()``; a call's own mask is combined with it.
        bias: whether the four projections have one.
        dropout: share of attention weights dropped in training.

    Raises HeadwiseError if sizes do not divide, or if an option or an input does not fit.

    >>> from headwise.core import Causal
    >>> from headwise.layers.positions import Rotary
    >>> layer = MultiHeadAttention(64, heads=8, kv_heads=2, position=Rotary(), mask=Causal())
    >>> x = torch.randn(2, 10, 64)
    >>> layer(x).shape
    torch.Size([2, 10, 64])
    >>> layer.with_weights(x).weights.shape
    (2, 8, 10, 10)
    """

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        memory_dim: int | None = None,
        position: PositionalEncoding | None = None,
        mask: Mask | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.model_dim, self.heads = model_dim, heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.memory_dim = model_dim if memory_dim is None else memory_dim
        check_sizes(
            model_dim=model_dim,
            heads=heads,
            head_dim=head_dim,
            kv_heads=self.kv_heads,
            memory_dim=self.memory_dim,
        )
        check_options(position=position, mask=mask, dropout=dropout)
        self.head_dim = model_dim // heads if head_dim is None else head_dim
        self.position = NoPosition() if position is None else position
        self.mask, self.dropout = mask, dropout
        self.query = nn.Linear(model_dim, heads * self.head_dim, bias=bias)
        self.key = nn.Linear(self.memory_dim, self.kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(self.memory_dim, self.kv_heads * self.head_dim, bias=bias)
        self.output = nn.Linear(heads * self.head_dim, model_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot and Bengio 2010) and set the biases to zero."""
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        positions: Int[Tensor, "*batch query"] | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
    ) -> Float[Tensor, "batch query model_dim"]:
        """Attend from ``x`` to ``memory``, or to ``x`` itself; positions count from 0 unless given."""
        call = self._project(x, memory, mask, positions, memory_positions)
        return self._attend(call)

    def with_weights(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        positions: Int[Tensor, "*batch query"] | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
    ) -> Attended:
        """The same output to the last bit, and the weights of each head, before dropout, as a lazy map."""
        call = self._project(x, memory, mask, positions, memory_positions)
        weights = AttentionMap(call.q, call.k, mask=call.mask, bias=call.bias)
        return Attended(self._attend(call), weights)

    def _attend(self, call: _Call) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        heads = attention(call.q, call.k, call.v, mask=call.mask, bias=call.bias, dropout=dropout)
        mixed: Tensor = self.output(heads.transpose(1, 2).flatten(-2))
        return mixed

    def _project(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Mask | None,
        positions: Tensor | None,
        memory_positions: Tensor | None,
    ) -> _Call:
        weight = self.query.weight
        check_embeddings(x, self.model_dim, weight, what="x")
        positions = token_positions(x, positions, self.position)
        x = self.position.embed(x, positions)
        if memory is None:
            refuse_lone_memory_positions(memory_positions)
            if self.memory_dim != self.model_dim:
                check_embeddings(x, self.memory_dim, weight, what="memory")
            memory, memory_positions = x, positions
        else:
            check_embeddings(memory, self.memory_dim, weight, what="memory")
            memory_positions = token_positions(
                memory, memory_positions, self.position, what="memory_positions"
            )
            memory = self.position.embed(memory, memory_positions)
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k = self.key(memory).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        v = self.value(memory).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        q, k = self.position.rotate(q, k, positions, memory_positions)
        bias = partial(self._bias, positions, memory_positions) if "scores" in self.position.acts_on else None
        both = mask if self.mask is None else self.mask if mask is None else self.mask & mask
        return _Call(q, k, v, both, bias)

    def _bias(
        self,
        query_positions: Tensor,
        key_positions: Tensor,
        q: Tensor,
        k: Tensor,
        rows: slice | Tensor,
        columns: slice,
        visible: Tensor | None,
    ) -> Tensor:
        return self.position.bias(q, k, query_positions[..., rows], key_positions[..., columns], visible)

    def extra_repr(self) -> str:
        mask = "" if self.mask is None else f", mask={self.mask}"
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"model_dim={self.model_dim}, heads={self.heads}, kv_heads={self.kv_heads}{mask}{dropout}"


class _Call(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None
    bias: partial[Tensor] | None
