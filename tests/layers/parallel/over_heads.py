"""Layers to split over heads, and what a pass through one gives."""

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from headwise.core import Causal, Padding
from headwise.layers import (
    ALiBi,
    Chain,
    ForgetGate,
    GatePerHead,
    Learned,
    MultiHeadAttention,
    NormBeforeRotation,
    PositionalEncoding,
    Rotary,
    Shaw,
    Sinks,
)
from headwise.layers.parallel import split_linears, tensor_parallel


class Table(PositionalEncoding):
    """A number for each head and distance, times one for all heads: a parameter of either kind."""

    acts_on = ("scores",)
    relative = any_length = cacheable = True
    source = "made for this test"
    per_head = (("table", 1),)

    def __init__(self, heads):
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, heads))
        self.slope = nn.Parameter(torch.tensor(0.7))

    def bias(self, q, k, query_positions, key_positions, visible):
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        distance = distance if distance.dim() == 3 else distance[None]
        return (self.slope * self.table[distance]).movedim(-1, 1)


LAYERS = {
    "rotary and grouped heads": lambda: MultiHeadAttention(16, 4, kv_heads=2, position=Rotary()),
    "learned, without bias": lambda: MultiHeadAttention(16, 4, position=Learned(16, 16, std=1.0), bias=False),
    "alibi": lambda: MultiHeadAttention(24, 6, position=ALiBi(6), mask=Causal()),
    "a table for each head": lambda: MultiHeadAttention(16, 4, position=Table(4), mask=Causal()),
    "features in a chain": lambda: MultiHeadAttention(
        16, 4, position=Chain(Learned(16, 16), ForgetGate(16, 4), Shaw(4, heads=4)), mask=Causal()
    ),
    "norms, sinks and a gate": lambda: MultiHeadAttention(
        16,
        4,
        kv_heads=2,
        position=Rotary(),
        head_norm=NormBeforeRotation(nn.RMSNorm(4), nn.RMSNorm(4)),
        sinks=Sinks(4),
        gate=GatePerHead(16, 4),
    ),
}
HELD_BY_RANKS = {
    "position.table": 1,
    "sinks.logits": 0,
    "position.encodings.1.gate.weight": 0,
    "position.encodings.1.gate.bias": 0,
    "position.encodings.2.key_table": 0,
    "position.encodings.2.value_table": 0,
}
KEEP = torch.tensor([[False, True, True, True, True, True, True], [True] * 7])


def passed(name, mesh=None):
    """Output and gradients of one pass, split over the mesh if there is one."""
    torch.manual_seed(0)
    layer = LAYERS[name]().double()
    for parameter in layer.parameters():  # biases too
        nn.init.normal_(parameter)
    x = torch.randn(2, 7, layer.model_dim, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 7, layer.model_dim, dtype=torch.float64)
    if mesh is not None:
        tensor_parallel(layer, mesh)
    padding = Padding(KEEP)
    return _pass(layer, x, weight, mask=padding, positions=padding.positions())


def passed_mlp(mesh=None):
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)).double()
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    if mesh is not None:
        split_linears(mlp, mesh, rows=("0",), columns=("2",))
    return _pass(mlp, x, torch.randn(2, 7, 6, dtype=torch.float64))


def _pass(module, x, weight, **kwargs):
    output = module(x, **kwargs)
    (output * weight).sum().backward()
    found = {"output": output.detach(), "x": x.grad}
    for name, parameter in module.named_parameters():
        gradient = parameter.grad
        found[name] = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
    return {what: tensor.clone() for what, tensor in found.items()}  # the copy waits for what is on its way


def held(mesh):
    """How much of a layer a rank holds: heads, and rows of the query projection."""
    layer = tensor_parallel(LAYERS["rotary and grouped heads"](), mesh)
    return [layer.heads, layer.kv_heads, len(layer.query.weight.to_local())]
