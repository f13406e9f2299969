"""The multi-head attention layer."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import Unpack

from headwise.core import AttentionMap, Mask, attention
from headwise.layers.block_terms import score_terms, value_terms
from headwise.layers.cache.kv_cache import KVCache
from headwise.layers.cache.turn import Turn
from headwise.layers.gates import OutputGate
from headwise.layers.head_norm import HeadNorm
from headwise.layers.layer_arguments import (
    check_embeddings,
    check_head_mask,
    check_options,
    check_parts,
    check_sizes,
    refuse_lone_memory_positions,
    token_positions,
)
from headwise.layers.layer_call import Attended, Call, Given, How
from headwise.layers.positions import NoPosition, PositionalEncoding
from headwise.layers.resetting import reset
from headwise.layers.sinks import Sinks, logits_of


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
        value_dim: width of one head's values and output, ``head_dim`` unless given.
        memory_dim: width of the memory in cross-attention, ``model_dim`` unless given.
        position: how tokens learn where they stand. What acts on embeddings is added to this layer's input,
            so in a stack of layers give it to the first alone.
        mask: holds for every call, for example ``Causal()``; a call's own mask is combined with it.
        head_norm: norms of queries and keys, before they are turned or after: ``NormBeforeRotation(...)``.
        sinks: logits in the softmax that are no key: ``Sinks(heads)``, or one fixed number for all heads.
        softcap: scores are kept between minus and plus this number by ``softcap * tanh(score / softcap)``.
        scale: of ``Q K^T``, ``1 / sqrt(head_dim)`` unless given, 1.0 in T5; an encoding's terms keep theirs.
        gate: multiplies what heads give, by what the input says: ``GatePerHead`` or ``GatePerChannel``.
        bias: whether the projections have one; ``output_bias`` says it for the last alone, as in Qwen2.
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
        value_dim: int | None = None,
        memory_dim: int | None = None,
        position: PositionalEncoding | None = None,
        mask: Mask | None = None,
        head_norm: HeadNorm | None = None,
        sinks: Sinks | float | None = None,
        softcap: float | None = None,
        scale: float | None = None,
        gate: OutputGate | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.model_dim, self.heads = model_dim, heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.memory_dim = model_dim if memory_dim is None else memory_dim
        kv = {"kv_heads": self.kv_heads, "memory_dim": self.memory_dim}
        kv |= {} if value_dim is None else {"value_dim": value_dim}
        check_sizes(kv, model_dim=model_dim, heads=heads, head_dim=head_dim)
        check_options(position=position, mask=mask, dropout=dropout, softcap=softcap, scale=scale)
        self.head_dim = model_dim // heads if head_dim is None else head_dim
        self.value_dim = self.head_dim if value_dim is None else value_dim
        self.head_norm, self.sinks, self.gate = head_norm, sinks, gate
        sizes = {"model_dim": model_dim, "heads": heads, "value_dim": self.value_dim}
        check_parts(head_norm=head_norm, sinks=sinks, gate=gate, **sizes)
        self.position = NoPosition() if position is None else position
        self.mask, self.dropout, self.softcap = mask, dropout, softcap
        self.scale = self.head_dim**-0.5 if scale is None else float(scale)
        self.query = nn.Linear(model_dim, heads * self.head_dim, bias=bias)
        self.key = nn.Linear(self.memory_dim, self.kv_heads * self.head_dim, bias=bias)
        self.value = nn.Linear(self.memory_dim, self.kv_heads * self.value_dim, bias=bias)
        output_bias = bias if output_bias is None else output_bias
        self.output = nn.Linear(heads * self.value_dim, model_dim, bias=output_bias)
        self._draw_projections()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot and Bengio 2010), set the biases to zero, and reset the parts given.

        Those are the encoding, the norms of heads, sinks and gate, which building the layer leaves alone.
        """
        for part in (self.position, self.head_norm, self.sinks, self.gate):
            if isinstance(part, nn.Module):
                reset(part)
        self._draw_projections()

    def _draw_projections(self) -> None:
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
        cache: KVCache | None = None,
        head_mask: Float[Tensor, "*batch heads"] | None = None,
    ) -> Float[Tensor, "batch query model_dim"]:
        """Attend from ``x`` to ``memory``, or to ``x`` itself; positions count from 0 unless given.

        With a ``cache`` the tokens of ``x`` come after those that it holds, in slots and in positions, and
        are remembered in it; padding named by the mask, of these tokens or of all so far, is remembered too.
        ``head_mask``, a number for each head or for each head of each row, multiplies what heads give.
        """
        call = self._project(x, memory, mask, positions, memory_positions, cache, head_mask)
        return self._mix(self._heads(call))

    def with_weights(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        **given: Unpack[Given],
    ) -> Attended:
        """The same output to the last bit, and the weights of each head, before dropout, as a lazy map."""
        call = self._project(x, memory, **given, outlives=True)
        weights = AttentionMap(call.q, call.k, **call.how)
        return Attended(self._mix(self._heads(call)), weights)

    def per_head(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        **given: Unpack[Given],
    ) -> Float[Tensor, "batch heads query value_dim"]:
        """What each head gives, gated and masked, before the heads are mixed."""
        return self._heads(self._project(x, memory, **given))

    def contributions(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        **given: Unpack[Given],
    ) -> Float[Tensor, "batch heads query model_dim"]:
        """What each head adds to the output, by its own columns of ``W_o``: they sum to it, less the bias."""
        heads = self.per_head(x, memory, **given)
        of_heads = self.output.weight.view(self.model_dim, self.heads, self.value_dim)
        return heads @ of_heads.permute(1, 2, 0)

    def _heads(self, call: Call) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        heads = attention(
            call.q,
            call.k,
            call.v,
            **call.how,
            dropout=dropout,
            value_bias=call.value_bias,
            score_change=call.score_change,
        )
        heads = heads if self.gate is None else self.gate(call.x, heads)
        return heads if call.head_mask is None else heads * call.head_mask[..., None, None].to(heads.dtype)

    def _mix(self, heads: Tensor) -> Tensor:
        mixed: Tensor = self.output(heads.transpose(1, 2).flatten(-2))
        return mixed

    def _project(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Mask | None = None,
        positions: Tensor | None = None,
        memory_positions: Tensor | None = None,
        cache: KVCache | None = None,
        head_mask: Tensor | None = None,
        outlives: bool = False,
    ) -> Call:
        weight = self.query.weight
        check_embeddings(x, self.model_dim, weight, what="x")
        check_head_mask(head_mask, self.heads, x.shape[0])
        mask = mask if self.mask is None else self.mask if mask is None else self.mask & mask
        if cache is not None:
            turn = Turn(cache, self.position, x, memory=memory, mask=mask, heads=self.heads)
            positions = turn.positions(positions)
            memory, memory_positions = turn.memory(memory_positions, self.memory_dim)
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
        q, k = (q, k) if self.head_norm is None else self.head_norm.before(q, k)
        q, k = self.position.rotate(q, k, positions, memory_positions)
        q, k = (q, k) if self.head_norm is None else self.head_norm.after(q, k)
        features = self.position.features(memory)
        if cache is not None:
            cached = turn.store(k, v, positions, memory_positions, features)
            cached = cached.copy() if outlives else cached
            k, v, memory_positions, mask = cached.k, cached.v, cached.positions, cached.mask(turn.mask)
            features = cached.features
        bias = score_terms(self.position, q, positions, memory_positions, features)
        value_bias = value_terms(self.position, positions, memory_positions)
        score_change = self.position.score_change(positions, memory_positions) if q.is_cuda else None
        scale = self.scale * self.position.content_scale
        how = How(mask=mask, bias=bias, scale=scale, softcap=self.softcap, sinks=logits_of(self.sinks, q))
        return Call(x, q, k, v, how, head_mask, value_bias, score_change)

    def extra_repr(self) -> str:
        mask = "" if self.mask is None else f", mask={self.mask}"
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"model_dim={self.model_dim}, heads={self.heads}, kv_heads={self.kv_heads}{mask}{dropout}"
