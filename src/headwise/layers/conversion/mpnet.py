"""MPNet: BERT's shape, with a bias by distance that all layers share, and no segments."""

from __future__ import annotations

from functools import partial

from headwise.layers.conversion.configuration import Configuration, layer_norm
from headwise.layers.conversion.filling import Weights, filled, numbered, within, without_prefix
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import Learned, T5Bias
from headwise.layers.transformer.block import make_blocks
from headwise.layers.transformer.mlp import MLP
from headwise.layers.transformer.residual import PostNorm
from headwise.layers.transformer.stack import Encoder
from headwise.layers.transformer.token_embedding import TokenEmbedding
from headwise.layers.transformer.token_model import TokenModel

WHO = "mpnet"
ATTENTION = {"attn.q": "query", "attn.k": "key", "attn.v": "value", "attn.o": "output"}
NAMES = {
    "embeddings.word_embeddings": "embedding.token",
    "embeddings.position_embeddings.weight": "embedding.position.table",
    "embeddings.LayerNorm": "embedding.norm",
    "encoder.relative_attention_bias.weight": "stack.blocks.0.attention.layer.position.table",
    **within(ATTENTION, "encoder.layer.{}.attention", "stack.blocks.{}.attention.layer"),
    "encoder.layer.{}.attention.LayerNorm": "stack.blocks.{}.attention.norm",
    "encoder.layer.{}.intermediate.dense": "stack.blocks.{}.mlp.layer.inner",
    "encoder.layer.{}.output.dense": "stack.blocks.{}.mlp.layer.outer",
    "encoder.layer.{}.output.LayerNorm": "stack.blocks.{}.mlp.norm",
}
UNUSED = ("pooler.", "lm_head.", "classifier.", "qa_outputs.", "embeddings.position_ids")
_POSITIONS = "embeddings.position_embeddings.weight"
_FURTHEST = 128  # no configuration names it


def mpnet(weights: Weights, config: object) -> TokenModel:
    """An MPNet encoder: the vectors of its last layer.

    Song et al. 2020, arXiv 2004.09297. Its table of positions begins after the row of the padding token,
    which is left out here: positions count real tokens from 0. Raises HeadwiseError if weights and
    configuration do not fit each other.
    """
    read = Configuration(config, who=WHO)
    depth, first = read.count("num_hidden_layers"), read.get("pad_token_id", default=1) + 1
    weights = without_prefix(weights, "mpnet.")
    if _POSITIONS in weights:
        weights = {**weights, _POSITIONS: weights[_POSITIONS][first:]}
    return filled(lambda: _model(read, depth, first), weights, numbered(NAMES, depth), who=WHO, unused=UNUSED)


def mpnet_attention(weights: Weights, config: object) -> MultiHeadAttention:
    """One attention layer of MPNet, from its own state dict, without the norm after it.

    The bias by distance is not in there. It is the model's: set ``layer.position`` to a `T5Bias` with it.

    >>> state = {f"{name}.weight": torch.eye(8) for name in ATTENTION}
    >>> state |= {f"{name}.bias": torch.zeros(8) for name in ATTENTION}
    >>> mpnet_attention(state, {"hidden_size": 8, "num_attention_heads": 2}).heads
    2
    """
    read = Configuration(config, who=WHO)
    layer, width = _attention(read), read.count("hidden_size")
    return filled(lambda: layer(width), weights, ATTENTION, who=WHO, unused=("LayerNorm.",))


def _attention(read: Configuration) -> partial[MultiHeadAttention]:
    dropout = read.number("attention_probs_dropout_prob", default=0.0)
    return partial(MultiHeadAttention, heads=read.count("num_attention_heads"), dropout=dropout)


def _model(read: Configuration, depth: int, first: int) -> TokenModel:
    width, norm = read.count("hidden_size"), layer_norm(read.number("layer_norm_eps", default=1e-12))
    dropout = read.number("hidden_dropout_prob", default=0.0)
    activation = read.activation("hidden_act", default="gelu")
    buckets = read.count("relative_attention_num_buckets", default=32)
    bias = T5Bias(read.count("num_attention_heads"), buckets=buckets, max_distance=_FURTHEST)
    embedding = TokenEmbedding(
        read.count("vocab_size"),
        width,
        position=Learned(read.count("max_position_embeddings") - first, width),
        norm=norm(width),
        dropout=dropout,
    )
    blocks = make_blocks(
        depth,
        width,
        attention=partial(_attention(read), position=bias),
        mlp=partial(MLP, hidden_dim=read.count("intermediate_size"), activation=activation),
        norm=norm,
        around=PostNorm,
        dropout=dropout,
    )
    return TokenModel(embedding, Encoder(blocks))
