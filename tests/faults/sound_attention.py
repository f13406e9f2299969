"""Sound: headwise's own layer with every encoding and mask, and torch's."""

from functools import partial

import torch
from torch import nn

from headwise.check import causality, equivariance, receptive_field, shift
from headwise.core import Causal, Padding, Prefix, SlidingWindow, attention
from headwise.layers import MultiHeadAttention
from tests.faults.fault import Sound
from tests.faults.parts import HEADS, WIDTH, Layer, vectors
from tests.faults.sound import independent, padding
from tests.layers.encodings import ENCODINGS


def built(dtype, encoding, seed=0, **settings):
    torch.manual_seed(seed)
    layer = MultiHeadAttention(WIDTH, heads=HEADS, position=ENCODINGS[encoding](WIDTH, HEADS), **settings)
    return layer.to(dtype).eval().requires_grad_(False)


def padded_call(layer):
    def f(x, keep):
        padding = Padding(keep)
        return layer(x, mask=padding, positions=padding.positions())

    return f


def causal_layer(encoding, dtype):
    make = partial(built, dtype, encoding, mask=Causal())
    layer, inputs = make(), vectors(dtype)
    reports = [
        causality(layer, inputs, lengths=(2, 5, 12)),
        receptive_field(layer, inputs),
        *independent(layer, inputs, make),
    ]
    reports += padding(padded_call(layer), inputs)
    ways = {"plain": layer, "weights asked": lambda x: layer.with_weights(x).output}
    reports.append(causality(ways, inputs, lengths=(2, 5)))
    return reports + _shifts(layer, inputs)


def full_layer(encoding, dtype):
    make = partial(built, dtype, encoding)
    layer, inputs = make(), vectors(dtype)
    reports = [receptive_field(layer, inputs, causal=False), *independent(layer, inputs, make)]
    reports.append(equivariance(layer, inputs, order_blind=encoding == "none"))
    return reports + padding(padded_call(layer), inputs) + _shifts(layer, inputs)


def _shifts(layer, inputs):
    if not layer.position.relative:
        return []
    return [shift(lambda x, positions: layer(x, positions=positions), inputs)]


def window_layer(dtype):
    layer, inputs = built(dtype, "rotary, halves", mask=Causal() & SlidingWindow(4)), vectors(dtype)
    reports = [receptive_field(layer, inputs, window=4), causality(layer, inputs)]
    return reports + padding(padded_call(layer), inputs) + independent(layer, inputs)


def symmetric_window_layer(dtype):
    layer, inputs = built(dtype, "alibi", mask=SlidingWindow(3, ahead=2)), vectors(dtype)
    return [receptive_field(layer, inputs, window=3, causal=False), *padding(padded_call(layer), inputs)]


def two_window_layers(dtype):
    """Two windows of 3 reach 5 keys."""
    layers = [built(dtype, "alibi", seed, mask=Causal() & SlidingWindow(3)) for seed in (0, 1)]
    return [receptive_field(nn.Sequential(*layers), vectors(dtype), window=3, depth=2)]


def grouped_layer(dtype):
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, heads=4, kv_heads=2, mask=Causal()).to(dtype).requires_grad_(False)
    return [causality(layer, vectors(dtype)), *independent(layer, vectors(dtype))]


def prefix_layer(dtype):
    layer = built(dtype, "rotary, neighbours", mask=Prefix(3))
    return [*independent(layer, vectors(dtype)), equivariance(layer, vectors(dtype), order_blind=False)]


def softcapped_function(dtype):
    parts = Layer(dtype)

    def f(x):
        q, k, v = parts.project(x)
        return parts.merge(attention(q, k, v, mask=Causal(), softcap=5.0))

    return [causality(f, vectors(dtype)), *independent(f, vectors(dtype))]


def torch_attention(dtype):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=True, dtype=dtype).eval()

    def f(x, need_weights=False):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return layer(x, x, x, attn_mask=hidden, need_weights=need_weights)[0]

    ways = {"plain": f, "weights asked": lambda x: f(x, need_weights=True)}
    return [
        causality(ways, vectors(dtype)),
        receptive_field(f, vectors(dtype)),
        *independent(f, vectors(dtype)),
    ]


def torch_attention_padded(dtype):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype).eval()

    def f(x, keep):
        return layer(x, x, x, key_padding_mask=~keep, need_weights=False)[0]

    def unpadded(x):
        return f(x, torch.ones(x.shape[:2], dtype=torch.bool))

    blind = equivariance(unpadded, vectors(dtype), order_blind=True)
    return [*padding(f, vectors(dtype)), receptive_field(unpadded, vectors(dtype), causal=False), blind]


def torch_encoder(dtype):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, norm_first=True, batch_first=True, dtype=dtype)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval().requires_grad_(False)

    def f(x):
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=dtype)
        return encoder(x, mask=hidden, is_causal=True)

    def padded(x, keep):
        return encoder(x, src_key_padding_mask=~keep)

    reports = padding(padded, vectors(dtype), depth=2)
    return [causality(f, vectors(dtype)), *independent(f, vectors(dtype), depth=2), *reports]


SOUND = [
    *(Sound(f"headwise, causal, {name}", partial(causal_layer, name)) for name in ENCODINGS),
    *(Sound(f"headwise, full, {name}", partial(full_layer, name)) for name in ENCODINGS),
    Sound("headwise, sliding window", window_layer),
    Sound("headwise, symmetric window", symmetric_window_layer),
    Sound("headwise, two windows in a row", two_window_layers),
    Sound("headwise, grouped heads", grouped_layer),
    Sound("headwise, prefix", prefix_layer),
    Sound("headwise, softcap", softcapped_function),
    Sound("torch, MultiheadAttention, causal", torch_attention),
    Sound("torch, MultiheadAttention, padded", torch_attention_padded),
    Sound("torch, TransformerEncoder", torch_encoder),
]
