"""Llama and the decoders of its shape: SmolLM, Mistral, Qwen2, Qwen3."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from headwise.core import SlidingWindow
from headwise.layers.conversion.configuration import Configuration
from headwise.layers.conversion.filling import Weights, filled, numbered, untied, within, without_prefix
from headwise.layers.head_norm import HeadNorm, NormBeforeRotation
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import Rotary
from headwise.layers.transformer.block import Block, make_blocks
from headwise.layers.transformer.mlp import GatedMLP
from headwise.layers.transformer.stack import Decoder
from headwise.layers.transformer.token_embedding import TokenEmbedding
from headwise.layers.transformer.token_model import LanguageModel, TokenModel

KINDS = ("llama", "mistral", "qwen2", "qwen3")
ATTENTION = {
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "o_proj": "output",
    "q_norm": "head_norm.query",
    "k_norm": "head_norm.key",
}
NAMES = {
    "embed_tokens": "embedding.token",
    **within(ATTENTION, "layers.{}.self_attn", "stack.blocks.{}.attention.layer"),
    "layers.{}.input_layernorm": "stack.blocks.{}.attention.norm",
    "layers.{}.mlp.gate_proj": "stack.blocks.{}.mlp.layer.gate",
    "layers.{}.mlp.up_proj": "stack.blocks.{}.mlp.layer.inner",
    "layers.{}.mlp.down_proj": "stack.blocks.{}.mlp.layer.outer",
    "layers.{}.post_attention_layernorm": "stack.blocks.{}.mlp.norm",
    "norm": "stack.norm",
    "lm_head": "output",
}
_ANGLES = ".rotary_emb.inv_freq"  # older files keep what is computed from the configuration


def llama(weights: Weights, config: object) -> TokenModel:
    """A decoder of Llama's shape, with its output, tied or its own: a `LanguageModel`.

    Weights without an output of their own, as those of transformers' LlamaModel, make a `TokenModel`, unless
    the output is tied. Touvron et al. 2023, arXiv 2302.13971; Qwen2 has biases on queries, keys and values
    (Yang et al. 2024, arXiv 2407.10671), Qwen3 norms of each head's queries and keys (arXiv 2505.09388).

    Raises HeadwiseError if weights and configuration do not fit each other, or if the configuration asks for
    another formula.
    """
    read = _read(config)
    weights = {name: weight for name, weight in weights.items() if not name.endswith(_ANGLES)}
    whole = any(name.startswith("model.") for name in weights)
    weights = without_prefix(weights, "model.")
    tied = bool(read.get("tie_word_embeddings", default=False))
    if tied:
        weights = untied(weights, {"lm_head.weight": "embed_tokens.weight"}, who=read.who)
    output = "tied" if tied else "own" if whole or "lm_head.weight" in weights else "none"
    depth = read.count("num_hidden_layers")
    return filled(lambda: _model(read, depth, output), weights, numbered(NAMES, depth), who=read.who)


def llama_attention(weights: Weights, config: object, layer: int = 0) -> MultiHeadAttention:
    """One attention layer, from its own state dict. It is causal only where a mask says so.

    ``layer`` is its number, where the configuration gives windows to some layers.

    >>> state = {f"{part}_proj.weight": torch.eye(8) for part in "qkvo"}
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "rope_theta": 10000.0}
    >>> llama_attention(state, sizes).position
    Rotary(base=10000, pairs='halves')
    """
    read = _read(config)
    weights = {name: weight for name, weight in weights.items() if not f".{name}".endswith(_ANGLES)}
    window, width = _windows(read)[layer], read.count("hidden_size")
    return filled(lambda: _attention(read, window)(width), weights, ATTENTION, who=read.who)


def _attention(read: Configuration, window: int | None) -> Callable[[int], MultiHeadAttention]:
    heads, width = read.count("num_attention_heads"), read.count("hidden_size")
    head_dim = read.count("head_dim", default=width // heads)
    biased = read.who == "qwen2" or bool(read.get("attention_bias", default=False))

    def layer(model_dim: int) -> MultiHeadAttention:
        return MultiHeadAttention(
            model_dim,
            heads,
            kv_heads=read.count("num_key_value_heads", default=heads),
            head_dim=head_dim,
            position=Rotary.from_config(read.config),
            mask=None if window is None else SlidingWindow(window),
            head_norm=_head_norm(read, head_dim),
            bias=biased,
            output_bias=biased and read.who != "qwen2",
            dropout=read.number("attention_dropout", default=0.0),
        )

    return layer


def _head_norm(read: Configuration, head_dim: int) -> HeadNorm | None:
    if read.who != "qwen3":
        return None
    norm = partial(nn.RMSNorm, head_dim, eps=read.number("rms_norm_eps", default=1e-6))
    return NormBeforeRotation(norm(), norm())


def _model(read: Configuration, depth: int, output: str) -> TokenModel:
    width, vocabulary = read.count("hidden_size"), read.count("vocab_size")
    norm = partial(nn.RMSNorm, eps=read.number("rms_norm_eps", default=1e-6))
    mlp = partial(
        GatedMLP,
        hidden_dim=read.count("intermediate_size"),
        activation=read.activation("hidden_act", default="silu"),
        bias=bool(read.get("mlp_bias", default=False)),
    )
    blocks: list[Block] = []
    for window in _windows(read):
        blocks += make_blocks(1, width, attention=_attention(read, window), mlp=mlp, norm=norm)
    embedding, stack = TokenEmbedding(vocabulary, width), Decoder(blocks, norm=norm(width))
    if output == "none":
        return TokenModel(embedding, stack)
    own = nn.Linear(width, vocabulary, bias=False) if output == "own" else None
    return LanguageModel(embedding, stack, own)


def _windows(read: Configuration) -> list[int | None]:
    """How far each layer sees, itself included; None for all the way."""
    depth, window = read.count("num_hidden_layers"), read.get("sliding_window")
    if read.who == "mistral":
        return [window] * depth
    if not read.get("use_sliding_window", default=False) or window is None:
        return [None] * depth
    seen_whole = read.count("max_window_layers", default=28)  # the rule before layers had names
    kinds = read.get("layer_types")
    if kinds is None:
        return [None if layer < seen_whole else window for layer in range(depth)]
    return [window if kind == "sliding_attention" else None for kind in kinds]


def _read(config: object) -> Configuration:
    read = Configuration(config, who="llama")
    kind = read.get("model_type", default="llama")
    read.require_one_of("model_type", KINDS)
    return Configuration(config, who=kind)
