"""The modules that are timed side by side, all with one set of weights where their design allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from headwise.core import Causal
from headwise.layers import ALiBi, MultiHeadAttention, Rotary


@dataclass(frozen=True)
class Contender:
    """One attention layer, ready to be called on ``[batch length model_dim]``."""

    name: str
    module: nn.Module
    call: Callable[[Tensor], Tensor]
    same_as_bare: bool = False
    longest: int | None = None


class Bare(nn.Module):
    """The least a multi-head attention layer can do: one fused projection, the kernel, one projection."""

    def __init__(self, model_dim: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(model_dim, 3 * model_dim)
        self.output = nn.Linear(model_dim, model_dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heads = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.output(heads.transpose(1, 2).flatten(-2))


def contenders(model_dim: int, heads: int, length: int, causal: bool) -> tuple[list[Contender], list[str]]:
    """The bare module first, then the rest; and the names of the peers that are not installed."""
    bare = Bare(model_dim, heads, causal)
    nn.init.normal_(bare.qkv.bias, std=0.1)
    nn.init.normal_(bare.output.bias, std=0.1)
    found = [Contender("bare", bare, bare, same_as_bare=True), *_headwise(bare, causal)]
    found.append(_torch(bare, length))
    missing = []
    for name, make in (("x-transformers", _x_transformers), ("transformers", _llama)):
        try:
            found += make(bare, length)
        except ImportError:
            missing.append(name)
    for contender in found:
        contender.module.eval()
    return [c for c in found if c.longest is None or length <= c.longest], missing


def _headwise(bare: Bare, causal: bool) -> list[Contender]:
    model_dim, heads = bare.output.in_features, bare.heads
    made = []
    for name, position in (("", None), (" rotary", Rotary()), (" ALiBi", ALiBi(heads))):
        layer = MultiHeadAttention(model_dim, heads, position=position, mask=Causal() if causal else None)
        _share(bare, [layer.query, layer.key, layer.value], layer.output)
        made.append(Contender(f"headwise{name}", layer, layer, same_as_bare=position is None))
    return made


def _torch(bare: Bare, length: int) -> Contender:
    """Called as its documentation asks: a causal call passes the mask and the hint that it is causal."""
    model_dim = bare.output.in_features
    layer = nn.MultiheadAttention(model_dim, bare.heads, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(bare.qkv.weight)
        layer.in_proj_bias.copy_(bare.qkv.bias)
    _share(bare, [], layer.out_proj)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1) if bare.causal else None

    def call(x: Tensor) -> Tensor:
        cut = hidden if hidden is None else hidden[: x.shape[1], : x.shape[1]]
        return layer(x, x, x, need_weights=False, attn_mask=cut, is_causal=bare.causal)[0]

    return Contender("torch MultiheadAttn", layer, call, same_as_bare=True)


def _x_transformers(bare: Bare, length: int) -> list[Contender]:
    """Its projections have no bias; rotary angles are made outside the layer, as its model does."""
    from x_transformers.x_transformers import AlibiPositionalBias, Attention, RotaryEmbedding

    model_dim, heads = bare.output.in_features, bare.heads
    head_dim = model_dim // heads
    layer = Attention(model_dim, heads=heads, dim_head=head_dim, causal=bare.causal, flash=True)
    rotary = RotaryEmbedding(head_dim)
    alibi = AlibiPositionalBias(heads, total_heads=heads)
    angles = rotary.forward_from_seq_len(length)
    return [
        Contender("x-transformers", layer, layer),
        Contender("x-transformers rotary", layer, lambda x: layer(x, rotary_pos_emb=angles)),
        # it builds matrices of heads x length x length: gigabytes at 8,192
        Contender("x-transformers ALiBi", layer, lambda x: layer(x, rel_pos=alibi), longest=2048),
    ]


def _llama(bare: Bare, length: int) -> list[Contender]:
    """Cosines and sines are made outside the layer, as its model does."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    model_dim = bare.output.in_features
    config = LlamaConfig(
        hidden_size=model_dim,
        num_attention_heads=bare.heads,
        num_key_value_heads=bare.heads,
        attention_bias=True,
        attn_implementation="sdpa",
        max_position_embeddings=length,
    )
    layer = LlamaAttention(config, layer_idx=0)
    _share(bare, [layer.q_proj, layer.k_proj, layer.v_proj], layer.o_proj)
    turns = LlamaRotaryEmbedding(config)(torch.zeros(1, length, model_dim), torch.arange(length)[None])

    def call(x: Tensor) -> Tensor:
        return layer(x, position_embeddings=turns, attention_mask=None, is_causal=bare.causal)[0]

    return [Contender("HF Llama rotary", layer, call)]


def _share(bare: Bare, projections: list[nn.Linear], output: nn.Linear) -> None:
    with torch.no_grad():
        weights, biases = bare.qkv.weight.chunk(3), bare.qkv.bias.chunk(3)
        for projection, weight, bias in zip(projections, weights, biases, strict=False):
            projection.weight.copy_(weight)
            projection.bias.copy_(bias)
        output.load_state_dict(bare.output.state_dict())
