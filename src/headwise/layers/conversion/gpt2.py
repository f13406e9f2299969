"""GPT-2: a decoder with learned positions, whose matrices are stored the other way round."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from headwise.layers.conversion.configuration import Configuration, layer_norm
from headwise.layers.conversion.filling import Weights, filled, numbered, untied, within, without_prefix
from headwise.layers.conversion.fused import split_qkv
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import Learned
from headwise.layers.transformer.block import make_blocks
from headwise.layers.transformer.mlp import MLP
from headwise.layers.transformer.stack import Decoder
from headwise.layers.transformer.token_embedding import TokenEmbedding
from headwise.layers.transformer.token_model import LanguageModel

WHO = "gpt2"
ATTENTION = {"q": "query", "k": "key", "v": "value", "c_proj": "output"}
NAMES = {
    "wte": "embedding.token",
    "wpe.weight": "embedding.position.table",
    **within(ATTENTION, "h.{}.attn", "stack.blocks.{}.attention.layer"),
    "h.{}.ln_1": "stack.blocks.{}.attention.norm",
    "h.{}.ln_2": "stack.blocks.{}.mlp.norm",
    "h.{}.mlp.c_fc": "stack.blocks.{}.mlp.layer.inner",
    "h.{}.mlp.c_proj": "stack.blocks.{}.mlp.layer.outer",
    "ln_f": "stack.norm",
}
_TURNED = (".c_proj.weight", ".c_fc.weight")
_MASKS = (".attn.bias", ".attn.masked_bias")  # older files keep the causal mask beside the weights


def gpt2(weights: Weights, config: object) -> LanguageModel:
    """GPT-2 with its tied output. Radford et al. 2019, Language models are unsupervised multitask learners.

    Raises HeadwiseError if weights and configuration do not fit each other, or if the configuration asks for
    another formula.
    """
    read = _checked(config)
    depth = read.count("num_hidden_layers", "n_layer")
    named = without_prefix(weights, "transformer.")
    named = _straight(untied(named, {"lm_head.weight": "wte.weight"}, who=WHO), read)
    return filled(lambda: _model(read, depth), named, numbered(NAMES, depth), who=WHO)


def gpt2_attention(weights: Weights, config: object) -> MultiHeadAttention:
    """One attention layer of GPT-2, from its own state dict. It is causal only where a mask says so.

    >>> state = {"c_attn.weight": torch.ones(8, 24), "c_attn.bias": torch.zeros(24)}
    >>> state |= {"c_proj.weight": torch.eye(8), "c_proj.bias": torch.zeros(8)}
    >>> gpt2_attention(state, {"n_embd": 8, "n_head": 2}).query.weight.shape
    torch.Size([8, 8])
    """
    read = _checked(config)
    layer, width = _attention(read), read.count("hidden_size", "n_embd")
    inside = {f"attn.{name}": weight for name, weight in weights.items()}
    return filled(lambda: layer(width), without_prefix(_straight(inside, read), "attn."), ATTENTION, who=WHO)


def _attention(read: Configuration) -> partial[MultiHeadAttention]:
    heads = read.count("num_attention_heads", "n_head")
    scale = None if read.get("scale_attn_weights", default=True) else 1.0
    return partial(
        MultiHeadAttention, heads=heads, scale=scale, dropout=read.number("attn_pdrop", default=0.0)
    )


def _model(read: Configuration, depth: int) -> LanguageModel:
    width, norm = (
        read.count("hidden_size", "n_embd"),
        layer_norm(read.number("layer_norm_epsilon", default=1e-5)),
    )
    activation = read.activation("activation_function", default="gelu_new")
    embedding = TokenEmbedding(
        read.count("vocab_size"),
        width,
        position=Learned(read.count("max_position_embeddings", "n_positions"), width),
        dropout=read.number("embd_pdrop", default=0.0),
    )
    blocks = make_blocks(
        depth,
        width,
        attention=_attention(read),
        mlp=partial(MLP, hidden_dim=read.count("n_inner", default=4 * width), activation=activation),
        norm=norm,
        dropout=read.number("resid_pdrop", default=0.0),
    )
    return LanguageModel(embedding, Decoder(blocks, norm=norm(width)))


def _checked(config: object) -> Configuration:
    read = Configuration(config, who=WHO)
    read.require(scale_attn_by_inverse_layer_idx=False, add_cross_attention=False, tie_word_embeddings=True)
    return read


def _straight(weights: Weights, read: Configuration) -> dict[str, Tensor]:
    """Outputs first in every matrix, and queries, keys and values apart."""
    straight: dict[str, Tensor] = {}
    heads = read.count("num_attention_heads", "n_head")
    for name, weight in weights.items():
        if f".{name}".endswith(_MASKS):
            continue
        if ".c_attn." in f".{name}":
            stem, _, kind = name.rpartition("c_attn.")
            parts = split_qkv(weight.T if kind == "weight" else weight, heads)
            straight |= {f"{stem}{part}.{kind}": piece for part, piece in zip("qkv", parts, strict=True)}
        else:
            straight[name] = weight.T if name.endswith(_TURNED) else weight
    return straight
