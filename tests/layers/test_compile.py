"""torch.compile: no graph breaks, equal results, and one compilation for many lengths.

The backends here need no C++ compiler: they capture the graph, one of them differentiates it too, and run it
op by op.
"""

import pytest
import torch

from headwise.core import (
    Causal,
    Documents,
    Explicit,
    Padding,
    Prefix,
    SlidingWindow,
    attention,
)
from headwise.layers import ALiBi, KVCache, MultiHeadAttention
from tests.layers.encodings import ENCODINGS, layer_with, words

LENGTH = 12
KEEP = torch.arange(LENGTH) >= torch.tensor([[0], [4]])
PAIRS = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(3)) > 0.3
MASKS = {
    "none": None,
    "causal": Causal(),
    "window": Causal() & SlidingWindow(3),
    "padding": Padding(KEEP),
    "causal and padding": Causal() & Padding(KEEP),
    "documents": Documents((torch.arange(LENGTH) // 5)[None].expand(2, -1)),
    "prefix": Prefix(3),
    "explicit": Explicit(PAIRS),
}
# the same operations; a compiled graph may add in another order: some roundings of numbers of about 1
CLOSE = {"rtol": 0.0, "atol": 64 * torch.finfo(torch.float64).eps}


@pytest.fixture(autouse=True)
def _forget_what_was_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()  # or torch takes the lengths of the next file for ones that vary


def passed(module, x):
    output = module(x)
    return output.detach(), torch.autograd.grad(output.square().sum(), x)[0]


def assert_compiles(layer, backend="eager"):
    x = words(2, LENGTH, 8).requires_grad_()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for found, expected in zip(passed(compiled, x), passed(layer, x), strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_is_one_graph(name):
    assert_compiles(layer_with(name, mask=Causal()))


@pytest.mark.parametrize("mask", MASKS)
def test_every_mask_is_one_graph(mask):
    assert_compiles(layer_with("alibi", mask=MASKS[mask]))


@pytest.mark.parametrize(("name", "mask"), [("rotary, halves", "padding"), ("alibi", "window")])
def test_the_backward_pass_is_one_graph_too(name, mask):
    assert_compiles(layer_with(name, mask=MASKS[mask]), backend="aot_eager")


@torch.no_grad()
@pytest.mark.parametrize(("name", "mask"), [("rotary, halves", "causal"), ("alibi", "window")])
def test_lengths_do_not_compile_anew(name, mask):
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph.forward

    layer = layer_with(name, mask=MASKS[mask])
    compiled = torch.compile(layer, fullgraph=True, backend=counted, dynamic=True)
    for length in range(5, 14):
        x = words(2, length, 8)
        torch.testing.assert_close(compiled(x), layer(x), **CLOSE)
    assert len(graphs) == 1


def test_a_long_input_compiles_to_few_blocks():
    """Each block is compiled by itself, so that the small ones of plain code took minutes at 4,096 tokens."""
    calls = []

    def counting(graph, inputs):
        names = [str(node.target) for node in graph.graph.nodes]
        calls.append(sum("scaled_dot_product_attention" in name for name in names))
        return graph.forward

    layer = MultiHeadAttention(64, 8, position=ALiBi(8), mask=Causal())
    x = torch.randn(1, 4096, 64)
    with torch.no_grad():
        found = torch.compile(layer, fullgraph=True, backend=counting, dynamic=False)(x)
        expected = layer(x)
    assert calls == [8]  # of 512 rows each
    # every output is a mean of values of about 1, in another order
    torch.testing.assert_close(found, expected, rtol=0.0, atol=64 * torch.finfo(torch.float32).eps)


def heads_of(x):
    return x.unflatten(-1, (2, 4)).transpose(1, 2)


def attended(x, **how):
    return attention(heads_of(x), heads_of(x), heads_of(x), **how)


def remembered(x, keep):
    return KVCache().append(heads_of(x), heads_of(x), keep=keep).k


def next_token(layer, x, keep):
    """Its output tells whether the cache remembers which tokens were padding."""
    cache = KVCache()
    layer(x, cache=cache, mask=keep if keep is None else Padding(keep))
    return layer(x[:, :1], cache=cache)


EVEN = (torch.arange(LENGTH) % 2 == 0).repeat(2, 1, LENGTH, 1)
SHARED = torch.rand(2, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
# name: what is called with a layer and an input, and what else it is given once sizes have varied
LATE = {
    "positions": (lambda layer, x, at: layer(x, positions=at), torch.arange(LENGTH) + 3),
    "factors of heads": (lambda layer, x, factors: layer(x, head_mask=factors), SHARED[:, 0, :2, 0]),
    "padding": (lambda layer, x, keep: layer(x, mask=keep if keep is None else Padding(keep)), KEEP),
    "padding in a cache": (next_token, KEEP),
    "tokens to keep": (lambda layer, x, keep: remembered(x, keep), KEEP),
    "pairs": (lambda layer, x, pairs: attended(x, mask=pairs if pairs is None else Explicit(pairs)), EVEN),
    "sinks": (lambda layer, x, sinks: attended(x, sinks=sinks), SHARED[:, 0, :2]),
    "a bias": (lambda layer, x, bias: attended(x, bias=bias), SHARED),
}


@torch.no_grad()
@pytest.mark.parametrize("name", LATE)
def test_what_fits_may_come_after_sizes_that_vary(name):
    """A size that may vary equals one that may not, where both are the same number."""
    call, given = LATE[name]
    layer, x = layer_with("rotary, halves"), words(2, LENGTH, 8)
    compiled = torch.compile(call, fullgraph=True, backend="eager")
    for batch, length in ((4, LENGTH - 5), (3, LENGTH - 3)):
        compiled(layer, words(batch, length, 8), None)
    torch.testing.assert_close(compiled(layer, x, given), call(layer, x, given), **CLOSE)
