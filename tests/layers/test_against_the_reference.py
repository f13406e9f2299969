"""The layer in float64 against `reference.py`, with every encoding, and in bfloat16 against its rounding."""

import numpy as np
import pytest
import torch

from headwise import reference
from headwise.core import Causal
from headwise.layers import MultiHeadAttention
from tests.layers.encodings import ENCODINGS, layer_with, parts, words
from tests.layers.oracles.rotary_family import FAMILY, rows_turned

TURNING = {"rotary, halves", "rotary, neighbours", *FAMILY}
# the others have formulas of their own in tests/layers/oracles
HERE = [
    name for name in ENCODINGS if name in {"none", "integers", "sinusoidal", "learned", "alibi"} | TURNING
]

# Float64 on both sides, sums of at most 20 terms of size about 1 to 10, three products deep.
EXACT = {"rtol": 0.0, "atol": 1e-12}
LENGTH = 5


def expected(layer, name, x, memory=None, positions=None, memory_positions=None, visible=None):
    """One row of words through the reference, with the encoding put where its paper puts it."""
    positions = np.arange(len(x)) if positions is None else positions
    if memory is None:
        memory, memory_positions = x, positions
    x, memory = added(layer, name, x, positions), added(layer, name, memory, memory_positions)
    weights, biases = parts(layer)
    bias = None
    if name == "alibi":
        bias = list(reference.alibi(layer.heads, positions, memory_positions))
    if name not in TURNING:
        return reference.multi_head_attention(
            x,
            *weights,
            heads=layer.heads,
            kv_heads=layer.kv_heads,
            memory=memory,
            visible=visible,
            bias=bias,
            biases=biases,
        )
    q = np.split(x @ weights[0].T + biases[0], layer.heads, axis=-1)
    k = np.split(memory @ weights[1].T + biases[1], layer.kv_heads, axis=-1)
    v = np.split(memory @ weights[2].T + biases[2], layer.kv_heads, axis=-1)
    heads = []
    for head in range(layer.heads):
        serving = head // (layer.heads // layer.kv_heads)
        turned_q, turned_k = turned(layer, name, (q[head], positions), (k[serving], memory_positions))
        heads.append(reference.attention(turned_q, turned_k, v[serving], visible=visible))
    return np.concatenate(heads, axis=-1) @ weights[3].T + biases[3]


def turned(layer, name, query, key):
    """The queries and the keys of one head, each given with its positions."""
    if name in FAMILY:
        length = int(max(*query[1], *key[1])) + 1
        return [
            rows_turned(name, layer.position, *rows, is_key, length)
            for rows, is_key in ((query, False), (key, True))
        ]
    pairs = name.split(", ")[1]
    return [reference.rotary(*rows, pairs=pairs) for rows in (query, key)]


def added(layer, name, x, positions):
    if name == "integers":
        return x + np.asarray(positions)[:, None]
    if name == "learned":
        return x + layer.position.table.detach().numpy()[positions]
    if name == "sinusoidal":
        return x + reference.positional_encoding(max(positions) + 1, x.shape[-1])[positions]
    return x


def randomize_biases(layer):
    """Biases start at zero, where a forgotten one would not show."""
    for projection in (layer.query, layer.key, layer.value, layer.output):
        torch.nn.init.normal_(projection.bias)


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(name, kv_heads, causal):
    layer = layer_with(name, 8, 4, kv_heads=kv_heads, mask=Causal() if causal else None)
    randomize_biases(layer)
    x = words(2, LENGTH, 8)
    visible = np.tril(np.ones((LENGTH, LENGTH), dtype=bool)) if causal else None
    for row, output in zip(x, layer(x), strict=True):
        by_reference = torch.from_numpy(expected(layer, name, row.numpy(), visible=visible))
        torch.testing.assert_close(output, by_reference, **EXACT)


@pytest.mark.parametrize("name", HERE)
def test_positions_of_each_row(name):
    layer = layer_with(name)
    randomize_biases(layer)
    x, positions = words(2, 4, 8), torch.tensor([[0, 1, 2, 3], [7, 3, 900, 4]])
    for row, at, output in zip(x, positions, layer(x, positions=positions), strict=True):
        by_reference = torch.from_numpy(expected(layer, name, row.numpy(), positions=at.numpy()))
        torch.testing.assert_close(output, by_reference, **EXACT)


@pytest.mark.parametrize("name", [name for name in HERE if name != "learned"])
def test_cross_attention_with_another_width(name):
    layer = layer_with(name, 8, 4, kv_heads=2, memory_dim=6, head_dim=4)
    randomize_biases(layer)
    x, memory = words(2, 3, 8), words(2, 7, 6)
    positions, memory_positions = np.array([4, 5, 6]), np.arange(7)[::-1].copy()
    outputs = layer(
        x,
        memory,
        positions=torch.from_numpy(positions),
        memory_positions=torch.from_numpy(memory_positions),
    )
    for row, keys, output in zip(x.numpy(), memory.numpy(), outputs, strict=True):
        by_reference = expected(layer, name, row, keys, positions, memory_positions)
        torch.testing.assert_close(output, torch.from_numpy(by_reference), **EXACT)


@pytest.mark.parametrize("name", ["none", "rotary, halves", "rotary, neighbours", "alibi"])
@pytest.mark.parametrize("first", [0, 100_003])
def test_bfloat16_at_any_position(name, first):
    """Within the layer's own roundings of the reference, near position 0 and near 100,003 alike.

    Weights and words are bfloat16 already. Each product and each turn rounds its result once, by u = 2^-8 at
    most; a turn keeps norms. So a query and a key carry 2 u each, a score 4 u S with S the largest
    |q| |k| / sqrt(head_dim), and a weight twice that. The value carries u and attention 3 u (weights,
    products, output): (8 S + 4) u times ``sum_j p_j |v_j|`` in all, carried through |W_o|, whose result
    rounds once more.
    """
    layer = MultiHeadAttention(16, 4, position=ENCODINGS[name](16, 4)).to(torch.bfloat16)
    x = 0.5 * torch.randn(1, 32, 16).to(torch.bfloat16)
    positions = torch.arange(first, first + 32)
    output = layer(x, positions=positions)[0].double()
    x, layer = x.double(), layer.double()
    by_reference = torch.from_numpy(expected(layer, name, x[0].numpy(), positions=positions.numpy()))
    q, k, v = (p(x)[0].unflatten(-1, (4, 4)).transpose(0, 1) for p in (layer.query, layer.key, layer.value))
    s = q.norm(dim=-1).amax() * k.norm(dim=-1).amax() / 4**0.5
    averages = (
        (layer.with_weights(x, positions=positions).weights.dense()[0] @ v.abs()).transpose(0, 1).flatten(1)
    )
    bound = 2.0**-8 * ((8 * s + 4) * averages @ layer.output.weight.abs().T + by_reference.abs())
    assert ((output - by_reference).abs() <= bound).all()
