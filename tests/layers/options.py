"""Every option of the layer once, in a form that fits any layer, and the layer's formula from `reference.py`.

To put a new option under the tests of this folder that read the table, add a line.
"""

from functools import partial

import numpy as np
import torch
from torch import nn

from headwise import reference
from headwise.layers import (
    GatePerChannel,
    GatePerHead,
    MultiHeadAttention,
    NormAfterRotation,
    NormBeforeRotation,
    Rotary,
    Sinks,
)
from tests.layers.encodings import parts


def norms(head_dim):
    """A norm for queries and one for keys, with weights of their own that are not 1."""
    made = [nn.RMSNorm(head_dim, eps=1e-6) for _ in range(2)]
    for norm in made:
        nn.init.uniform_(norm.weight, 0.5, 2.0)
    return made


def sinks(heads):
    made = Sinks(heads)
    nn.init.normal_(made.logits)
    return made


# name: (model_dim, heads, head_dim) -> the arguments
OPTIONS = {
    "none": lambda model_dim, heads, head_dim: {},
    "norm before": lambda model_dim, heads, head_dim: {"head_norm": NormBeforeRotation(*norms(head_dim))},
    "norm after": lambda model_dim, heads, head_dim: {"head_norm": NormAfterRotation(*norms(head_dim))},
    "softcap": lambda model_dim, heads, head_dim: {"softcap": 0.5},
    "scale": lambda model_dim, heads, head_dim: {"scale": 1.0},
    "sinks": lambda model_dim, heads, head_dim: {"sinks": sinks(heads)},
    "one sink": lambda model_dim, heads, head_dim: {"sinks": 0.0},
    "gate per head": lambda model_dim, heads, head_dim: {"gate": GatePerHead(model_dim, heads)},
    "gate per channel": lambda model_dim, heads, head_dim: {
        "gate": GatePerChannel(model_dim, heads, head_dim, bias=False)
    },
    "narrow values": lambda model_dim, heads, head_dim: {"value_dim": 1},
    "wide values": lambda model_dim, heads, head_dim: {"value_dim": 3 * head_dim},
    "all": lambda model_dim, heads, head_dim: {
        "head_norm": NormBeforeRotation(*norms(head_dim)),
        "softcap": 0.7,
        "scale": 0.9,
        "sinks": sinks(heads),
        "gate": GatePerChannel(model_dim, heads, 3),
        "value_dim": 3,
    },
}


def layer_of(option, model_dim=8, heads=4, **kwargs):
    """A float64 rotary layer for evaluation, with that option and biases that are not zero."""
    head_dim = kwargs.get("head_dim", model_dim // heads)
    given = OPTIONS[option](model_dim, heads, head_dim)
    layer = MultiHeadAttention(model_dim, heads, position=Rotary(), **given, **kwargs).double().eval()
    for projection in (layer.query, layer.key, layer.value, layer.output):
        if projection.bias is not None:
            nn.init.normal_(projection.bias)
    return layer


def per_head(layer, x, positions=None, visible=None):
    """What each head gives for one row of words: ``[heads, query, value_dim]``."""
    x = np.asarray(x, dtype=np.float64)
    positions = np.arange(len(x)) if positions is None else positions
    weights, biases = parts(layer)
    q = np.split(x @ weights[0].T + biases[0], layer.heads, axis=-1)
    k = np.split(x @ weights[1].T + biases[1], layer.kv_heads, axis=-1)
    v = np.split(x @ weights[2].T + biases[2], layer.kv_heads, axis=-1)
    turn = lambda rows: reference.rotary(rows, positions, pairs="halves")  # noqa: E731
    norm_q, norm_k = (lambda rows: rows), (lambda rows: rows)
    if layer.head_norm is not None:
        of_q, of_k = (
            n.weight.detach().double().numpy() for n in (layer.head_norm.query, layer.head_norm.key)
        )
        norm_q, norm_k = partial(reference.rms_norm, weight=of_q), partial(reference.rms_norm, weight=of_k)
    logits = layer.sinks.logits.tolist() if isinstance(layer.sinks, Sinks) else [layer.sinks] * layer.heads
    outputs = []
    for head in range(layer.heads):
        serving = head // (layer.heads // layer.kv_heads)
        if isinstance(layer.head_norm, NormAfterRotation):
            one_q, one_k = norm_q(turn(q[head])), norm_k(turn(k[serving]))
        else:
            one_q, one_k = turn(norm_q(q[head])), turn(norm_k(k[serving]))
        outputs.append(
            reference.attention(
                one_q,
                one_k,
                v[serving],
                visible=visible,
                scale=layer.scale,
                softcap=layer.softcap,
                sink=-np.inf if logits[head] is None else logits[head],
            )
        )
    heads = np.stack(outputs)
    if layer.gate is None:
        return heads
    add = layer.gate.projection.bias
    gates = reference.sigmoid_gate(
        x,
        layer.gate.projection.weight.detach().double().numpy(),
        0.0 if add is None else add.detach().double().numpy(),
    )
    return heads * gates.reshape(len(x), layer.heads, -1).transpose(1, 0, 2)


def whole(layer, x, head_mask=None, **how):
    """The layer's output for one row of words, by the reference."""
    weights, biases = parts(layer)
    heads = per_head(layer, x, **how) * (1.0 if head_mask is None else np.asarray(head_mask)[:, None, None])
    return torch.from_numpy(np.concatenate(list(heads), axis=-1) @ weights[3].T + biases[3])
