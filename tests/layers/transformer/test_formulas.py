"""MLPs, norms and their order, written again as plain loops over float64 numbers."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.layers import MLP, GatedMLP, PostNorm, PreNorm, Sinusoidal, TokenEmbedding

EXACT = {"rtol": 0.0, "atol": 1e-13}  # sums of at most 12 terms of size 1, each rounded to 1e-16


def matrix(projection):
    """A projection as a function of a list of floats."""
    weight = projection.weight.tolist()
    bias = [0.0] * len(weight) if projection.bias is None else projection.bias.tolist()
    return lambda x: [
        sum(w * one for w, one in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)
    ]


BENDS = {
    "relu": (functional.relu, lambda z: max(z, 0.0)),
    "gelu": (functional.gelu, lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2),
    "silu": (functional.silu, lambda z: z / (1 + math.exp(-z))),
    "tanh gelu": (
        nn.GELU(approximate="tanh"),
        lambda z: z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    ),
}


@pytest.mark.parametrize("bend", BENDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gated", [True, False])
def test_mlp(bend, bias, gated):
    activation, by_hand = BENDS[bend]
    layer = (GatedMLP if gated else MLP)(3, 5, activation=activation, bias=bias).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x = torch.randn(2, 4, 3).double()
    inner, outer = matrix(layer.inner), matrix(layer.outer)
    for row, output in zip(x.flatten(0, 1), layer(x).flatten(0, 1), strict=True):
        hidden = inner(row.tolist())
        if gated:
            hidden = [by_hand(g) * h for g, h in zip(matrix(layer.gate)(row.tolist()), hidden, strict=True)]
        else:
            hidden = [by_hand(h) for h in hidden]
        torch.testing.assert_close(output, torch.tensor(outer(hidden), dtype=torch.float64), **EXACT)


def layer_norm(x, weight, bias, eps):
    mean = sum(x) / len(x)
    spread = math.sqrt(sum((one - mean) ** 2 for one in x) / len(x) + eps)
    return [(one - mean) / spread * w + b for one, w, b in zip(x, weight, bias, strict=True)]


def rms_norm(x, weight, eps):
    size = math.sqrt(sum(one**2 for one in x) / len(x) + eps)
    return [one / size * w for one, w in zip(x, weight, strict=True)]


@pytest.mark.parametrize("root_mean_square", [False, True])
@pytest.mark.parametrize("around", [PreNorm, PostNorm])
def test_the_norm_stands_where_it_should(around, root_mean_square):
    norm = nn.RMSNorm(3, eps=1e-3) if root_mean_square else nn.LayerNorm(3, eps=1e-3)
    part = around(nn.Linear(3, 3), norm).double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_()
    weight = norm.weight.tolist()

    def normed(x):
        if root_mean_square:
            return rms_norm(x, weight, 1e-3)
        return layer_norm(x, weight, norm.bias.tolist(), 1e-3)

    row = torch.randn(3).double()
    x, layer = row.tolist(), matrix(part.layer)
    if around is PreNorm:
        expected = [a + b for a, b in zip(x, layer(normed(x)), strict=True)]
    else:
        expected = normed([a + b for a, b in zip(x, layer(x), strict=True)])
    torch.testing.assert_close(
        part(row[None, None])[0, 0], torch.tensor(expected, dtype=torch.float64), **EXACT
    )


def test_the_embedding_adds_what_it_has_and_norms_last():
    layer = TokenEmbedding(
        7, 4, position=Sinusoidal(), segments=2, norm=nn.LayerNorm(4), scale=2.0, std=1.0
    ).double()
    with torch.no_grad():
        layer.norm.weight.normal_()
        layer.norm.bias.normal_()
    tokens, segments = [3, 6, 3], [0, 1, 1]
    output = layer(torch.tensor([tokens]), segments=torch.tensor([segments]))[0]
    for place, (token, segment) in enumerate(zip(tokens, segments, strict=True)):
        waves = [math.sin(place), math.cos(place), math.sin(place / 100), math.cos(place / 100)]
        word, kind = layer.token.weight[token].tolist(), layer.segment.weight[segment].tolist()
        summed = [2 * w + k + p for w, k, p in zip(word, kind, waves, strict=True)]
        expected = layer_norm(summed, layer.norm.weight.tolist(), layer.norm.bias.tolist(), layer.norm.eps)
        torch.testing.assert_close(output[place], torch.tensor(expected, dtype=torch.float64), **EXACT)
