"""The ways a call can take through `attention`: which arguments lead to each, whatever the mask."""

import pytest
import torch

from headwise.core import block, blocks


def distance_bias(q, k, rows, columns, visible):
    """ALiBi with one slope, from slots."""
    slots = torch.arange(rows.start, rows.stop)[:, None] - torch.arange(columns.start, columns.stop)
    return -0.1 * slots.abs().to(q.dtype)[None, None]


# name: (queries, keys, dtype) -> the arguments that send a call that way
PATHS = {
    "mask alone": lambda queries, keys, dtype: {},
    "tensor bias": lambda queries, keys, dtype: {
        "bias": torch.linspace(-1, 1, 4 * queries * keys, dtype=dtype)
        .reshape(1, 4, queries, keys)
        .requires_grad_()
    },
    "bias function": lambda queries, keys, dtype: {"bias": distance_bias},
    "softcap": lambda queries, keys, dtype: {"softcap": 2.0},
    "other value width": lambda queries, keys, dtype: {},
    "far other value width": lambda queries, keys, dtype: {},
    "sinks": lambda queries, keys, dtype: {"sinks": sinks(dtype)},
    "sinks, bias function": lambda queries, keys, dtype: {"sinks": sinks(dtype), "bias": distance_bias},
    "sinks, softcap": lambda queries, keys, dtype: {"sinks": sinks(dtype), "softcap": 2.0},
    "sinks, other value width": lambda queries, keys, dtype: {"sinks": sinks(dtype)},
}
_FAR = 150  # so much wider that no fused kernel serves it


def sinks(dtype, heads=4):
    """A logit for each head, some above and some below usual scores."""
    return torch.linspace(-3, 3, heads, dtype=dtype).requires_grad_()


def value_dim(path):
    return _FAR if path.startswith("far") else 3 if path.endswith("other value width") else 6


def force_small_blocks(monkeypatch: pytest.MonkeyPatch, rows=2, kept=0):
    """Blocks of so few queries that a small test has many; recomputed, unless ``kept`` scores hold them."""
    monkeypatch.setattr(block, "_MOST_ROWS", rows)
    monkeypatch.setattr(blocks, "_KEPT_ELEMENTS", kept)


def with_gradients(attend, inputs, kwargs):
    """The output and the gradients of a fixed mixture of its entries, those of bias and sinks included."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    for name in ("bias", "sinks"):
        if isinstance(kwargs.get(name), torch.Tensor):
            leaf = kwargs[name].detach().clone().requires_grad_()
            kwargs = {**kwargs, name: leaf}
            leaves.append(leaf)
    output = attend(*leaves[:3], **kwargs)
    mixture = torch.cos(torch.arange(output.numel(), dtype=torch.float64)).reshape(output.shape)
    (output * mixture.to(output.dtype)).sum().backward()
    return output.detach(), [leaf.grad for leaf in leaves]
