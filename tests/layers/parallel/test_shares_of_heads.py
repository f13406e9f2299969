"""Every encoding can be cut between heads: two half layers, added, are the layer. One process will do."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from headwise.core import Causal
from tests.layers.encodings import ENCODINGS, layer_with, words

RANKS, HEADS, MODEL_DIM = 2, 4, 16


def share(layer, rank):
    """What a rank holds: rows of the projections, columns of the output, its heads of the encoding."""
    half = deepcopy(layer)
    half.heads //= RANKS
    half.kv_heads //= RANKS
    for name, axis in {"query": 0, "key": 0, "value": 0, "output": 1}.items():
        linear = getattr(half, name)
        linear.weight = nn.Parameter(linear.weight.chunk(RANKS, axis)[rank])
        if axis == 0:
            linear.bias = nn.Parameter(linear.bias.chunk(RANKS)[rank])
        elif rank > 0:
            linear.bias = None
    count = HEADS // RANKS
    for part in half.position.modules():
        if hasattr(part, "keep_heads"):
            part.keep_heads(rank * count, count, of=HEADS)
    return half


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODINGS)
def test_two_halves_are_the_layer(name):
    layer = layer_with(name, MODEL_DIM, HEADS, mask=Causal())
    for parameter in layer.parameters():  # tables and biases that start at zero would hide a wrong share
        nn.init.normal_(parameter, std=0.5)
    x = words(2, 7, MODEL_DIM)
    halves = [share(layer, rank)(x) for rank in range(RANKS)]
    # sums of at most 16 products, cut in two
    bound = 128 * torch.finfo(torch.float64).eps * float(layer(x).abs().max())
    torch.testing.assert_close(halves[0] + halves[1], layer(x), rtol=0, atol=bound)
