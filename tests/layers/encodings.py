"""Every encoding once, in a form that fits any layer: to put a new one under all property tests, add a line.

``every`` has each encoding by its name, exported or not. A test checks that the table is complete.
"""

from types import SimpleNamespace

import torch

from headwise.layers import ALiBi, Integers, Learned, MultiHeadAttention, NoPosition, Rotary, Sinusoidal
from headwise.layers.positions.listing import every_encoding
from tests.layers.on_a_line import OnALine
from tests.layers.rotary_family import ROTARY_FAMILY

MOST_POSITIONS = 5000  # enough for a shift by 4,099
every = SimpleNamespace(**{encoding.__name__: encoding for encoding in every_encoding()})

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
    "shaw": lambda model_dim, heads: every.Shaw(model_dim // heads, 3, std=1.0),
    "transformer-xl": lambda model_dim, heads: every.TransformerXL(model_dim, heads),
    "deberta": lambda model_dim, heads: every.DeBERTa(model_dim, heads, max_distance=9, buckets=4, std=1.0),
    "cope": lambda model_dim, heads: every.CoPE(model_dim // heads, max_position=3, std=1.0),
    "forget gate": lambda model_dim, heads: every.ForgetGate(model_dim, heads),
    "t5": lambda model_dim, heads: every.T5Bias(heads, std=1.0),
    "t5, one-sided": lambda model_dim, heads: every.T5Bias(heads, bidirectional=False, std=1.0),
    "kerple, log": lambda model_dim, heads: every.KerpleLog(heads),
    "kerple, power": lambda model_dim, heads: every.KerplePower(heads),
    "fire": lambda model_dim, heads: every.Fire(heads, threshold=0.5),
    "sandwich": lambda model_dim, heads: every.Sandwich(heads, dim=8),
    "swin": lambda model_dim, heads: OnALine(every.SwinTable(heads, window=(300, 1), std=1.0)),
    "beit": lambda model_dim, heads: OnALine(every.BEiTTable(heads, window=(300, 1), std=1.0)),
    "log-cpb": lambda model_dim, heads: OnALine(every.LogCPB(heads, window=(9, 5), width=16)),
    "chain": lambda model_dim, heads: every.Chain(
        Sinusoidal(layout="halves"),
        Rotary(),
        every.KerpleLog(heads),
        every.Shaw(model_dim // heads, std=1.0),
    ),
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


def bias_of(encoding, q, k, at_queries, at_keys, visible=None, *, tokens):
    """What an encoding adds to the scores; ``tokens`` are the embeddings that the keys were made from."""
    features = encoding.features(tokens)
    more = {} if features is None else {"features": features}
    return encoding.bias(q, k, at_queries, at_keys, visible, **more)


def words(*shape):
    """Random embeddings in float64."""
    return torch.randn(*shape, dtype=torch.float64)


def parts(layer):
    """The layer's weights and biases as NumPy arrays, in the order of `reference.multi_head_attention`."""
    projections = (layer.query, layer.key, layer.value, layer.output)
    weights = [p.weight.detach().double().numpy() for p in projections]
    biases = [0.0 if p.bias is None else p.bias.detach().double().numpy() for p in projections]
    return weights, biases
