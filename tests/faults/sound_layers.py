"""Layers over sequences without a fault: every property that applies must hold."""

from functools import partial

import torch
from torch import nn

from headwise.check import (
    Vectors,
    effect,
    evaluation,
    length,
    lifecycle,
    oracle,
    paths,
)
from headwise.core import Causal
from headwise.layers import Learned, MultiHeadAttention, NoPosition, Sinusoidal
from tests.faults import formulas as right
from tests.faults.fault import Sound
from tests.faults.peers import x_transformers


def of_layer(make, dtype, *, width=24, trained=16, steps=("cast", "save", "copy", "meta"), drops=None):
    layer = make().eval()
    return [
        evaluation(layer, Vectors(width, dtype), drops=drops),
        lifecycle(make, Vectors(width, dtype), length=60, steps=steps),
        length(layer, Vectors(width, dtype), trained=trained),
    ]


def headwise_layer(dtype, make_position):
    def layer(mask=None):
        return MultiHeadAttention(24, heads=3, position=make_position(), mask=mask, dropout=0.2).to(dtype)

    one = layer().eval()

    def causal(x):
        return one(x, mask=Causal())

    return [
        *of_layer(layer, dtype, drops=True),
        effect({"mask": (one, causal)}, Vectors(24, dtype)),
        paths({"plain": one, "with weights": lambda x: one.with_weights(x).output}, Vectors(24, dtype)),
    ]


class TorchLayer(nn.Module):
    def __init__(self, weights=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 3, dropout=0.2, batch_first=True)
        self.weights = weights

    def forward(self, x):
        return self.attention(x, x, x, need_weights=self.weights)[0]


def torch_layer(dtype):
    layer = TorchLayer().to(dtype).eval()

    def with_weights(x):
        return layer.attention(x, x, x, need_weights=True)[0]

    return [
        *of_layer(lambda: TorchLayer().to(dtype), dtype, drops=True),
        paths({"without weights": layer, "with weights": with_weights}, Vectors(24, dtype)),
    ]


def torch_encoder(dtype):
    def make():
        return nn.TransformerEncoderLayer(24, 3, 32, batch_first=True).to(dtype)

    layer = make().eval()

    def fast(x):
        with torch.no_grad():
            return layer(x)

    return [
        *of_layer(make, dtype, drops=True),
        paths({"fast path": fast, "plain": layer}, Vectors(24, dtype)),
    ]


def x_transformers_layer(dtype, flash):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = x_transformers.Attention(24, dim_head=8, heads=3, causal=True, flash=flash)

        def forward(self, x):
            return self.attention(x)

    return of_layer(lambda: Layer().to(dtype), dtype)


class FromTable(nn.Module):
    """A table of 16 positions that is refused beyond its end."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 24)
        self.layer = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x):
        if x.shape[1] > 16:
            raise ValueError(f"length {x.shape[1]} exceeds the 16 positions there are")
        x = x + self.table(torch.arange(x.shape[1]))
        return self.layer(x, x, x, need_weights=False)[0]


def from_table(dtype):
    make = lambda: FromTable().to(dtype)  # noqa: E731
    return [
        evaluation(make().eval(), Vectors(24, dtype)),
        lifecycle(make, Vectors(24, dtype), length=16),
        length(make().eval(), Vectors(24, dtype), trained=16),
    ]


def sinusoidal(dtype):
    def table(n, dim):
        return Sinusoidal().table(torch.arange(n), dim, torch.float32).to(dtype)

    return [
        oracle(partial(table, dim=dim), lambda n, dim=dim: right.sinusoidal(n, dim), lambda n: (n,))
        for dim in (4, 5, 8)
    ] + headwise_layer(dtype, Sinusoidal)


SOUND = [
    Sound("nn.MultiheadAttention", torch_layer),
    Sound("nn.TransformerEncoderLayer", torch_encoder),
    Sound("x-transformers Attention", lambda dtype: x_transformers_layer(dtype, flash=False)),
    Sound("x-transformers Attention, flash", lambda dtype: x_transformers_layer(dtype, flash=True)),
    Sound("headwise, no position", lambda dtype: headwise_layer(dtype, NoPosition)),
    Sound("headwise, learned positions", lambda dtype: headwise_layer(dtype, lambda: Learned(64, 24))),
    Sound("headwise, sinusoidal", sinusoidal),
    Sound("a table that refuses what is too long", from_table),
]
