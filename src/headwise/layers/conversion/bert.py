"""BERT and the models of its shape, MiniLM among them."""

from __future__ import annotations

from functools import partial

from headwise.layers.conversion.configuration import Configuration, layer_norm
from headwise.layers.conversion.filling import Weights, filled, numbered, within, without_prefix
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import Learned
from headwise.layers.transformer.block import make_blocks
from headwise.layers.transformer.mlp import MLP
from headwise.layers.transformer.residual import PostNorm
from headwise.layers.transformer.stack import Encoder
from headwise.layers.transformer.token_embedding import TokenEmbedding
from headwise.layers.transformer.token_model import TokenModel

WHO = "bert"
ATTENTION = {"self.query": "query", "self.key": "key", "self.value": "value", "output.dense": "output"}
NAMES = {
    "embeddings.word_embeddings": "embedding.token",
    "embeddings.token_type_embeddings": "embedding.segment",
    "embeddings.position_embeddings.weight": "embedding.position.table",
    "embeddings.LayerNorm": "embedding.norm",
    **within(ATTENTION, "encoder.layer.{}.attention", "stack.blocks.{}.attention.layer"),
    "encoder.layer.{}.attention.output.LayerNorm": "stack.blocks.{}.attention.norm",
    "encoder.layer.{}.intermediate.dense": "stack.blocks.{}.mlp.layer.inner",
    "encoder.layer.{}.output.dense": "stack.blocks.{}.mlp.layer.outer",
    "encoder.layer.{}.output.LayerNorm": "stack.blocks.{}.mlp.norm",
}
# what stands on top of the last layer, and numbers that are no weights
UNUSED = ("pooler.", "cls.", "classifier.", "qa_outputs.", "embeddings.position_ids")
_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}


def bert(weights: Weights, config: object) -> TokenModel:
    """A BERT encoder: the vectors of its last layer. What stands on top of that is left out.

    Devlin et al. 2018, arXiv 1810.04805. Raises HeadwiseError if weights and configuration do not fit each
    other, or if the configuration asks for another formula.
    """
    read = _checked(config)
    depth = read.count("num_hidden_layers")
    weights = without_prefix(_today(weights), "bert.")
    return filled(lambda: _model(read, depth), weights, numbered(NAMES, depth), who=WHO, unused=UNUSED)


def bert_attention(weights: Weights, config: object) -> MultiHeadAttention:
    """One attention layer of BERT, from its own state dict, without the norm after it.

    >>> state = {f"{name}.weight": torch.eye(8) for name in ATTENTION}
    >>> state |= {f"{name}.bias": torch.zeros(8) for name in ATTENTION}
    >>> bert_attention(state, {"hidden_size": 8, "num_attention_heads": 2}).heads
    2
    """
    width = Configuration(config, who=WHO).count("hidden_size")
    layer = attention(_checked(config))
    return filled(lambda: layer(width), _today(weights), ATTENTION, who=WHO, unused=("output.LayerNorm",))


def attention(read: Configuration) -> partial[MultiHeadAttention]:
    """What makes the attention layers."""
    dropout = read.number("attention_probs_dropout_prob", default=0.0)
    return partial(MultiHeadAttention, heads=read.count("num_attention_heads"), dropout=dropout)


def _model(read: Configuration, depth: int) -> TokenModel:
    width, norm = read.count("hidden_size"), layer_norm(read.number("layer_norm_eps", default=1e-12))
    dropout = read.number("hidden_dropout_prob", default=0.0)
    activation = read.activation("hidden_act", default="gelu")
    embedding = TokenEmbedding(
        read.count("vocab_size"),
        width,
        position=Learned(read.count("max_position_embeddings"), width),
        segments=read.count("type_vocab_size", default=2),
        norm=norm(width),
        dropout=dropout,
    )
    blocks = make_blocks(
        depth,
        width,
        attention=attention(read),
        mlp=partial(MLP, hidden_dim=read.count("intermediate_size"), activation=activation),
        norm=norm,
        around=PostNorm,
        dropout=dropout,
    )
    return TokenModel(embedding, Encoder(blocks))


def _checked(config: object) -> Configuration:
    read = Configuration(config, who=WHO)
    read.require(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return read


def _today(weights: Weights) -> Weights:
    """Files of the first BERT call the numbers of a norm gamma and beta."""
    renamed = {}
    for name, weight in weights.items():
        for old, new in _OLD_NAMES.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        renamed[name] = weight
    return renamed
