"""A compiled step is compiled twice at most: the second time its numbers have become variables."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from headwise.core import Causal, SlidingWindow
from headwise.layers import FixedCache, MemoryCache, MultiHeadAttention, RingCache, Rotary

CASES = {
    "fixed, static shapes": (lambda: FixedCache(40, static=True), Causal()),
    "ring": (lambda: RingCache(4), SlidingWindow(4)),
}


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_one_graph_serves_all_steps(case):
    """The cache is an argument: numbers of a global object would be fixed in the graph."""
    make, mask = CASES[case]
    layer = MultiHeadAttention(8, 2, position=Rotary(), mask=mask).eval()
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda x, cache: layer(x, cache=cache), backend=counter, fullgraph=True)
    cache, plain, x = make(), make(), torch.randn(1, 20, 8)
    for each in (cache, plain):
        layer(x[:, :8], cache=each)
    for token in x[:, 8:].split(1, dim=1):
        # the same operations: a few float32 roundings of numbers of size about 1
        torch.testing.assert_close(compiled(token, cache), layer(token, cache=plain), rtol=0.0, atol=1e-6)
    assert counter.frame_count <= 2
    torch._dynamo.reset()


@torch.no_grad()
def test_one_graph_serves_all_steps_beside_a_memory():
    layer, memory, x = (
        MultiHeadAttention(8, 2, position=Rotary()).eval(),
        torch.randn(1, 6, 8),
        torch.randn(1, 16, 8),
    )
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda x, cache: layer(x, cache=cache), backend=counter, fullgraph=True)
    cache, plain = MemoryCache(), MemoryCache()
    for each in (cache, plain):
        layer(x[:, :2], memory, cache=each)
    for token in x[:, 2:].split(1, dim=1):
        torch.testing.assert_close(compiled(token, cache), layer(token, cache=plain), rtol=0.0, atol=1e-6)
    assert counter.frame_count <= 2
    torch._dynamo.reset()
