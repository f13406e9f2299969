"""Gradients against finite differences, in float64, on every path and through the blocks."""

import pytest
import torch
from torch.autograd import gradcheck

from headwise.core import Causal, attention, attention_weights
from tests.core.cases import draw, make_mask
from tests.core.paths import PATHS, force_small_blocks, value_dim


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [None, "causal", "padding", "causal & padding"])
def test_of_attention(monkeypatch, path, name):
    force_small_blocks(monkeypatch)
    mask = None if name is None else make_mask(name, 3, 4)[0]
    kwargs = PATHS[path](3, 4, torch.float64)
    leaves = [x[..., :2].clone().requires_grad_() for x in draw(3, 4, kv_heads=1, value_dim=value_dim(path))]
    given = [name for name, value in kwargs.items() if isinstance(value, torch.Tensor)]
    leaves += [kwargs.pop(name) for name in given]

    def call(q, k, v, *more):
        return attention(q, k, v, mask=mask, **kwargs, **dict(zip(given, more, strict=True)))

    assert gradcheck(call, leaves)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 1)])
def test_of_a_bias_shared_by_rows_or_heads(monkeypatch, shape):
    force_small_blocks(monkeypatch)
    q, k, v = draw(3, 4)
    bias = torch.randn(*shape, 3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda added: attention(q, k, v, mask=Causal(), bias=added), [bias])


def test_of_what_a_bias_function_learns(monkeypatch):
    """The function's own parameters learn, though each block is computed twice."""
    force_small_blocks(monkeypatch)
    q, k, v = draw(4, 4)
    distance = (torch.arange(4)[:, None] - torch.arange(4)).abs().double()

    def with_slopes(slopes):
        def bias(q, k, rows, columns, visible):
            return -slopes[None, :, None, None] * distance[rows, columns]

        return attention(q, k, v, bias=bias)

    assert gradcheck(with_slopes, [torch.rand(4, dtype=torch.float64, requires_grad=True)])


def test_of_the_weights():
    q, k, _ = (x.requires_grad_() for x in draw(3, 4))
    assert gradcheck(lambda q, k: attention_weights(q, k, mask=Causal(), softcap=2.0), [q, k])


@pytest.mark.parametrize("path", PATHS)
def test_none_reaches_the_future(path):
    """Under a causal mask the gradient of query i to keys and values after it is exactly zero."""
    inputs = [x.requires_grad_() for x in draw(5, 5, value_dim=value_dim(path))]
    output = attention(*inputs, mask=Causal(), **PATHS[path](5, 5, torch.float64))
    for query in range(5):
        to_keys, to_values = torch.autograd.grad(output[:, :, query].sum(), inputs[1:], retain_graph=True)
        assert not to_keys[:, :, query + 1 :].any()
        assert not to_values[:, :, query + 1 :].any()
        assert to_values[:, :, : query + 1].all()
