"""Small models of each kind, which several tests of the Transformer read."""

from functools import partial

import torch
from torch import nn

from headwise.layers import (
    ALiBi,
    Decoder,
    Encoder,
    GatedMLP,
    LanguageModel,
    Learned,
    MultiHeadAttention,
    NormBeforeRotation,
    PostNorm,
    Rotary,
    Sinusoidal,
    T5Bias,
    TokenEmbedding,
    TokenModel,
    Transformer,
    make_blocks,
)

MODEL_DIM, VOCABULARY, LONGEST = 8, 11, 40
ATTENTION = partial(MultiHeadAttention, heads=2)


def blocks(depth=2, *, attention=ATTENTION, **options):
    return make_blocks(depth, MODEL_DIM, attention=attention, **options)


def gpt(dropout=0.0):
    """Learned positions, pre-norm, tied."""
    words = TokenEmbedding(
        VOCABULARY, MODEL_DIM, position=Learned(LONGEST, MODEL_DIM, std=1.0), std=1.0, dropout=dropout
    )
    return LanguageModel(words, Decoder(blocks(dropout=dropout), norm=nn.LayerNorm(MODEL_DIM)))


def llama():
    """Rotary, grouped queries, RMSNorm, a gated MLP, no biases, an output layer of its own."""
    attention = partial(MultiHeadAttention, heads=4, kv_heads=2, position=Rotary(), bias=False)
    stack = Decoder(blocks(attention=attention, norm=nn.RMSNorm, mlp=GatedMLP), norm=nn.RMSNorm(MODEL_DIM))
    output = nn.Linear(MODEL_DIM, VOCABULARY, bias=False)
    return LanguageModel(TokenEmbedding(VOCABULARY, MODEL_DIM, std=1.0), stack, output)


def alibi():
    """A bias by distance, which is one object in all the layers."""
    attention = partial(MultiHeadAttention, heads=2, position=ALiBi(2))
    stack = Decoder(blocks(attention=attention), norm=nn.LayerNorm(MODEL_DIM))
    return LanguageModel(TokenEmbedding(VOCABULARY, MODEL_DIM, std=1.0), stack)


def t5():
    """T5: one bias by buckets in all layers, the far ones reached soon; no scale, no biases."""
    position = T5Bias(2, buckets=8, max_distance=12, bidirectional=False, std=1.0)
    attention = partial(MultiHeadAttention, heads=2, position=position, scale=1.0, bias=False)
    stack = Decoder(blocks(attention=attention, norm=nn.RMSNorm), norm=nn.RMSNorm(MODEL_DIM))
    return LanguageModel(TokenEmbedding(VOCABULARY, MODEL_DIM, std=1.0), stack)


def qwen3():
    """Qwen 3: grouped queries, heads wider than their share, and a norm of queries and of keys."""

    def attention(model_dim, **options):
        norms = [nn.RMSNorm(6, eps=1e-6) for _ in range(2)]
        options |= {"head_norm": NormBeforeRotation(*norms), "position": Rotary(1e6), "bias": False}
        return MultiHeadAttention(model_dim, heads=4, kv_heads=2, head_dim=6, **options)

    stack = Decoder(blocks(attention=attention, norm=nn.RMSNorm, mlp=GatedMLP), norm=nn.RMSNorm(MODEL_DIM))
    return LanguageModel(TokenEmbedding(VOCABULARY, MODEL_DIM, std=1.0), stack)


def bert():
    """An encoder: post-norm, learned positions, segments, a norm after the embedding."""
    words = TokenEmbedding(
        VOCABULARY,
        MODEL_DIM,
        position=Learned(LONGEST, MODEL_DIM, std=1.0),
        segments=2,
        norm=nn.LayerNorm(MODEL_DIM),
        std=1.0,
    )
    return TokenModel(words, Encoder(blocks(around=PostNorm)))


def translator():
    """An encoder and a decoder that share their embedding."""
    words = TokenEmbedding(VOCABULARY, MODEL_DIM, position=Sinusoidal(), std=1.0)
    encoder = Encoder(blocks(), norm=nn.LayerNorm(MODEL_DIM))
    decoder = Decoder(blocks(cross=ATTENTION), norm=nn.LayerNorm(MODEL_DIM))
    return Transformer(TokenModel(words, encoder), LanguageModel(words, decoder))


WRITERS = {"gpt": gpt, "llama": llama, "alibi": alibi, "t5": t5, "qwen3": qwen3}
MODELS = {**WRITERS, "bert": bert}


def exact(make):
    """The model in float64, for evaluation, with biases and norms that are not what they start as."""
    model = make().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def random_tokens(*shape):
    return torch.randint(VOCABULARY, shape)
