"""Every encoding once, in a form that fits any layer: to put a new one under all property tests, add a line.

A test checks that the table is complete.
"""

import torch

from headwise.layers import ALiBi, Integers, Learned, MultiHeadAttention, NoPosition, Rotary, Sinusoidal
from tests.layers.rotary_family import ROTARY_FAMILY

MOST_POSITIONS = 5000  # enough for a shift by 4,099

# name: (model_dim, heads) -> the encoding
ENCODINGS = {
    "none": lambda model_dim, heads: NoPosition(),
    "integers": lambda model_dim, heads: Integers(),
    "sinusoidal": lambda model_dim, heads: Sinusoidal(),
    "learned": lambda model_dim, heads: Learned(MOST_POSITIONS, model_dim, std=1.0),
    "rotary, halves": lambda model_dim, heads: Rotary(pairs="halves"),
    "rotary, neighbours": lambda model_dim, heads: Rotary(pairs="neighbours"),
    **ROTARY_FAMILY,
    "alibi": lambda model_dim, heads: ALiBi(heads),
}
ORDERED = [name for name in ENCODINGS if name != "none"]
CACHEABLE = [name for name in ENCODINGS if ENCODINGS[name](4, 2).cacheable]
RELATIVE = [name for name in ENCODINGS if ENCODINGS[name](4, 2).relative]
ABSOLUTE = [name for name in ENCODINGS if name not in RELATIVE]


def layer_with(name, model_dim=8, heads=2, **kwargs):
    """A float64 layer for evaluation, with the encoding of that name."""
    # what turns knows the width of a head, which need not be model_dim / heads
    width = heads * kwargs.get("head_dim", model_dim // heads) if name in ROTARY_FAMILY else model_dim
    position = ENCODINGS[name](width, heads)
    return MultiHeadAttention(model_dim, heads, position=position, **kwargs).double().eval()


def words(*shape):
    """Random embeddings in float64."""
    return torch.randn(*shape, dtype=torch.float64)


def parts(layer):
    """The layer's weights and biases as NumPy arrays, in the order of `reference.multi_head_attention`."""
    projections = (layer.query, layer.key, layer.value, layer.output)
    weights = [p.weight.detach().double().numpy() for p in projections]
    biases = [0.0 if p.bias is None else p.bias.detach().double().numpy() for p in projections]
    return weights, biases
