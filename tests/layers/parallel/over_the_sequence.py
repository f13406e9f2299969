"""Layers whose sequence is cut between ranks, and what a pass through one gives."""

import torch
from torch import nn

from headwise.core import Causal, Documents, Explicit, Padding, Prefix, SlidingWindow
from headwise.layers import ALiBi, Learned, MultiHeadAttention, Rotary
from headwise.layers.parallel import ContextParallel

LENGTH, MODEL_DIM = 12, 16
KEEP = torch.arange(LENGTH) >= torch.tensor([[0], [7], [2]])  # padding on the left, past the first chunk too
DOCUMENTS = (torch.arange(LENGTH) // 5)[None].expand(3, -1)
PAIRS = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(1)) > 0.4

# name: the layer's options, the call's mask and whether that is cut into chunks too
CASES = {
    "bidirectional": ({"position": Rotary()}, None),
    "causal, grouped heads": ({"position": Rotary(), "kv_heads": 2, "mask": Causal()}, None),
    "causal and left padding": ({"position": Rotary(), "mask": Causal()}, Padding(KEEP)),
    "alibi in a window": ({"position": ALiBi(4), "mask": Causal() & SlidingWindow(4)}, None),
    "learned, documents": ({"position": Learned(LENGTH, MODEL_DIM, std=1.0)}, Documents(DOCUMENTS)),
    "prefix": ({"position": ALiBi(4), "mask": Prefix(8)}, None),
    "explicit": ({}, Explicit(PAIRS)),
}


def passed(name, mesh=None, chunk_of_padding=False):
    """Output and gradients of one pass; with a mesh, of this rank's chunk."""
    torch.manual_seed(0)
    options, mask = CASES[name]
    layer = MultiHeadAttention(MODEL_DIM, 4, **options).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
        parameter.grad = None  # encodings are shared between the calls of this function
    x, weight = torch.randn(2, 3, LENGTH, MODEL_DIM, dtype=torch.float64)
    positions = mask.positions() if isinstance(mask, Padding) else None
    cache = None
    if mesh is not None:
        here = slice(*(LENGTH // mesh.size() * (mesh.get_local_rank() + end) for end in (0, 1)))
        x, weight, cache, positions = x[:, here], weight[:, here], ContextParallel(mesh), None
        if chunk_of_padding:
            mask = Padding(mask.keep[:, here])
        elif isinstance(mask, Padding):
            positions = mask.positions()[:, here]
    x = x.clone().requires_grad_()
    output = layer(x, mask=mask, positions=positions, cache=cache)
    (output * weight).sum().backward()
    weights = {what: parameter.grad for what, parameter in layer.named_parameters()}
    return {"output": output.detach(), "x": x.grad, "weights": weights}


def passed_with_weights(mesh=None):
    torch.manual_seed(0)
    layer = MultiHeadAttention(MODEL_DIM, 4, position=ALiBi(4), mask=Causal()).double()
    x = torch.randn(1, LENGTH, MODEL_DIM, dtype=torch.float64)
    if mesh is None:
        return layer.with_weights(x).weights.dense()
    chunk = x.chunk(mesh.size(), dim=1)[mesh.get_local_rank()]
    return layer.with_weights(chunk, cache=ContextParallel(mesh)).weights.dense()
