"""T5: an encoder and a decoder, scores that are not scaled, one bias by distance for each of the two."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import nn

from headwise.layers.conversion.configuration import ACTIVATIONS, Activation, Configuration
from headwise.layers.conversion.filling import Weights, filled, numbered, untied, within
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import T5Bias
from headwise.layers.transformer.block import OfWidth, make_blocks
from headwise.layers.transformer.mlp import MLP, GatedMLP
from headwise.layers.transformer.sequence_to_sequence import Transformer
from headwise.layers.transformer.stack import Decoder, Encoder
from headwise.layers.transformer.token_embedding import TokenEmbedding
from headwise.layers.transformer.token_model import LanguageModel, TokenModel

WHO = "t5"
ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "output"}
_BIAS = {"relative_attention_bias.weight": "position.table"}
_COPIES = {f"{part}.embed_tokens.weight": "shared.weight" for part in ("encoder", "decoder")}
_IN_VAIN = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias",)  # no model reads it


def t5(weights: Weights, config: object) -> Transformer | TokenModel:
    """T5 with its output, tied or its own; weights of an encoder alone make a `TokenModel`.

    Raffel et al. 2019, arXiv 1910.10683. Raises HeadwiseError if weights and configuration do not fit each
    other.
    """
    read = Configuration(config, who=WHO)
    weights = untied(weights, _COPIES, who=WHO)
    depth = read.count("num_layers")
    if not any(name.startswith("decoder.") for name in weights):
        names = {"shared": "embedding.token", **_stack(read, "encoder", "", depth)}
        return filled(lambda: _encoder(read, _words(read)), weights, names, who=WHO)
    scaled = bool(read.get("scale_decoder_outputs", "tie_word_embeddings", default=True))
    table, output = weights.get("shared.weight"), weights.get("lm_head.weight")
    tied = bool(read.get("tie_word_embeddings", default=True))
    tied = tied and (scaled if table is None or output is None else torch.equal(table, output))
    if tied:
        weights = untied(weights, {"lm_head.weight": "shared.weight"}, who=WHO)
    names = {"shared": "encoder.embedding.token", "lm_head": "decoder.output"}
    names |= _stack(read, "encoder", "encoder.", depth)
    names |= _stack(read, "decoder", "decoder.", read.count("num_decoder_layers", default=depth))
    return filled(lambda: _whole(read, scaled, tied), weights, names, who=WHO, unused=_IN_VAIN)


def t5_attention(weights: Weights, config: object, *, bidirectional: bool = True) -> MultiHeadAttention:
    """One attention layer of T5, from its own state dict, with the bias by distance if that holds it.

    The first layer holds it for all. ``bidirectional`` is False in a decoder.

    >>> state = {f"{part}.weight": torch.eye(8) for part in "qkvo"}
    >>> t5_attention(state, {"d_model": 8, "d_kv": 4, "num_heads": 2}).scale
    1.0
    """
    read = Configuration(config, who=WHO)
    owns = "relative_attention_bias.weight" in weights
    layer = _attention(read, _bias(read, bidirectional) if owns else None)
    return filled(lambda: layer(read.count("d_model")), weights, ATTENTION | _BIAS, who=WHO)


def _attention(read: Configuration, bias: T5Bias | None) -> partial[MultiHeadAttention]:
    return partial(
        MultiHeadAttention,
        heads=read.count("num_heads"),
        head_dim=read.count("d_kv"),
        position=bias,
        scale=1.0,
        bias=False,
        dropout=read.number("dropout_rate", default=0.0),
    )


def _bias(read: Configuration, bidirectional: bool) -> T5Bias:
    return T5Bias(
        read.count("num_heads"),
        buckets=read.count("relative_attention_num_buckets", default=32),
        max_distance=read.count("relative_attention_max_distance", default=128),
        bidirectional=bidirectional,
    )


def _words(read: Configuration) -> TokenEmbedding:
    dropout = read.number("dropout_rate", default=0.0)
    return TokenEmbedding(read.count("vocab_size"), read.count("d_model"), dropout=dropout, std=1.0)


def _encoder(read: Configuration, words: TokenEmbedding) -> TokenModel:
    width, norm = read.count("d_model"), _norm(read)
    attention, depth = _attention(read, _bias(read, True)), read.count("num_layers")
    blocks = make_blocks(depth, width, attention=attention, mlp=_mlp(read), norm=norm, dropout=_dropout(read))
    return TokenModel(words, Encoder(blocks, norm=norm(width)))


def _whole(read: Configuration, scaled: bool, tied: bool) -> Transformer:
    width, norm, words = read.count("d_model"), _norm(read), _words(read)
    blocks = make_blocks(
        read.count("num_decoder_layers", default=read.count("num_layers")),
        width,
        attention=_attention(read, _bias(read, False)),
        cross=_attention(read, None),
        mlp=_mlp(read),
        norm=norm,
        dropout=_dropout(read),
    )
    output = None if tied else nn.Linear(width, read.count("vocab_size"), bias=False)
    scale = width**-0.5 if scaled else 1.0
    writer = LanguageModel(words, Decoder(blocks, norm=norm(width)), output, scale=scale)
    return Transformer(_encoder(read, words), writer)


def _norm(read: Configuration) -> OfWidth:
    return partial(nn.RMSNorm, eps=read.number("layer_norm_epsilon", default=1e-6))


def _dropout(read: Configuration) -> float:
    return read.number("dropout_rate", default=0.0)


def _mlp(read: Configuration) -> OfWidth:
    gated, activation = _feed_forward(read)
    make = GatedMLP if gated else MLP
    return partial(
        make, hidden_dim=read.count("d_ff"), activation=activation, bias=False, dropout=_dropout(read)
    )


def _feed_forward(read: Configuration) -> tuple[bool, Activation]:
    """Whether it is gated, and the function: "relu" in the first models, "gated-gelu" in the later ones."""
    read.require_one_of("feed_forward_proj", tuple(_FEED_FORWARD))
    return _FEED_FORWARD[read.get("feed_forward_proj", default="relu")]


_FEED_FORWARD: Mapping[str, tuple[bool, Activation]] = {
    "relu": (False, ACTIVATIONS["relu"]),
    "gelu": (False, ACTIVATIONS["gelu"]),
    "silu": (False, ACTIVATIONS["silu"]),
    "gated-relu": (True, ACTIVATIONS["relu"]),
    "gated-gelu": (True, ACTIVATIONS["gelu_new"]),  # a gated one is the one by tanh
    "gated-silu": (True, ACTIVATIONS["silu"]),
}


def _stack(read: Configuration, theirs: str, ours: str, depth: int) -> dict[str, str]:
    """The names of an encoder or a decoder, whose layers are blocks and whose parts are layers."""
    block, place = f"{theirs}.block.{{}}.layer", f"{ours}stack.blocks.{{}}"
    crosses = theirs == "decoder"
    last = 2 if crosses else 1
    names = within(ATTENTION, f"{block}.0.SelfAttention", f"{place}.attention.layer")
    names |= {f"{block}.0.layer_norm": f"{place}.attention.norm"}
    if crosses:
        names |= within(ATTENTION, f"{block}.1.EncDecAttention", f"{place}.cross.layer")
        names |= {f"{block}.1.layer_norm": f"{place}.cross.norm"}
    inside = {"wi_0": "gate", "wi_1": "inner"} if _feed_forward(read)[0] else {"wi": "inner"}
    names |= within({**inside, "wo": "outer"}, f"{block}.{last}.DenseReluDense", f"{place}.mlp.layer")
    names |= {f"{block}.{last}.layer_norm": f"{place}.mlp.norm"}
    names |= within(_BIAS, f"{theirs}.block.0.layer.0.SelfAttention", f"{ours}stack.blocks.0.attention.layer")
    return numbered({**names, f"{theirs}.final_layer_norm": f"{ours}stack.norm"}, depth)
