"""Cross-attention: the memory is projected once, and each step of queries reads it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import Causal, Explicit, HeadwiseError, Padding
from headwise.layers import KVCache, MemoryCache
from tests.layers.cache.stepping import CACHEABLE, stepped
from tests.layers.cache.test_same_as_whole import cuts
from tests.layers.encodings import layer_with, words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}  # as in test_same_as_whole
few = settings(max_examples=6, deadline=None, derandomize=True, database=None)
cacheable = pytest.mark.parametrize("name", CACHEABLE)


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


@cacheable
@few
@given(chunks=cuts(6), keys=st.integers(1, 5), again=st.booleans(), padded=st.booleans())
def test_chunks_of_queries_give_what_all_of_them_give(name, chunks, keys, again, padded):
    layer, x, memory = layer_with(name, 8, 4, kv_heads=2), words(2, sum(chunks), 8), words(2, keys, 8)
    keep = torch.ones(2, keys, dtype=torch.bool)
    keep[1, 1:] = False
    mask, cache = Padding(keep) if padded else None, MemoryCache()
    whole = layer(x, memory, mask=mask)
    first = layer(x[:, : chunks[0]], memory, mask=mask, cache=cache)
    rest = (
        stepped(layer, x[:, chunks[0] :], chunks[1:], cache, memory=memory.clone() if again else None)
        if chunks[1:]
        else x[:, :0]
    )
    torch.testing.assert_close(torch.cat((first, rest), 1), whole, **ROUNDING)
    assert len(cache) == sum(chunks)


def test_the_memory_is_projected_once():
    layer, cache = layer_with("rotary, halves"), MemoryCache()
    memory, x = words(1, 5, 8), words(1, 3, 8)
    layer(x[:, :1], memory, cache=cache)
    tokens = []
    layer.key.register_forward_hook(lambda module, inputs, output: tokens.append(inputs[0].shape[1]))
    layer(x[:, 1:2], memory, cache=cache)
    layer(x[:, 2:], cache=cache)
    assert sum(tokens) == 0


def test_given_positions_are_counted_on_from():
    layer, cache, memory, x = layer_with("rotary, halves"), MemoryCache(), words(2, 4, 8), words(2, 4, 8)
    at, of_memory = torch.tensor([[5, 6, 7, 8], [0, 1, 2, 3]]), torch.tensor([9, 7, 5, 3])
    whole = layer(x, memory, positions=at, memory_positions=of_memory)
    first = layer(x[:, :2], memory, positions=at[:, :2], memory_positions=of_memory, cache=cache)
    rest = stepped(layer, x[:, 2:], [1, 1], cache)
    torch.testing.assert_close(torch.cat((first, rest), 1), whole, **ROUNDING)


def test_beams_and_rollback():
    layer, cache, memory, x = layer_with("alibi"), MemoryCache(), words(2, 4, 8), words(2, 4, 8)
    layer(x[:, :2], memory, cache=cache)
    layer(words(2, 1, 8), cache=cache)
    cache.crop(2)
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows)
    expected = layer(x[rows], memory[rows])[:, 2:]
    torch.testing.assert_close(layer(x[rows][:, 2:], memory[rows], cache=cache), expected, **ROUNDING)


def test_copies_and_a_second_memory():
    layer, cache, x = layer_with("alibi"), MemoryCache(), words(2, 2, 8)
    one, two = words(2, 4, 8), words(2, 5, 8)
    layer(x, one, cache=cache)
    twin = cache.copy()
    cache.clear()
    assert torch.equal(layer(x, two, cache=cache), layer(x, two, cache=MemoryCache()))
    assert len(twin) == 2
    layer(x, cache=twin)
    assert (len(twin), len(cache)) == (4, 2)


def test_another_memory_is_refused():
    layer, cache, x = layer_with("none"), MemoryCache(), words(1, 2, 8)
    layer(x, words(1, 4, 8), cache=cache)
    with pytest.raises(
        HeadwiseError, match="memory must be the one it was filled with, or None, got another"
    ):
        layer(x, words(1, 4, 8), cache=cache)
    with pytest.raises(HeadwiseError, match="memory must be given with the first call, got None"):
        layer(x, cache=MemoryCache())
    with pytest.raises(HeadwiseError, match="cache must be a MemoryCache where a memory is given"):
        layer(x, words(1, 4, 8), cache=KVCache())


def test_masks_of_places_are_refused_and_others_serve():
    layer, memory, x = layer_with("none"), words(1, 4, 8), words(1, 3, 8)
    with pytest.raises(
        HeadwiseError, match="does not ask where the queries stand among the keys, got causal"
    ):
        layer(x, memory, mask=Causal(), cache=MemoryCache())
    pairs = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool)
    cache = MemoryCache()
    first = layer(x[:, :2], memory, mask=Explicit(pairs[:2]), cache=cache)
    rest = layer(x[:, 2:], mask=Explicit(pairs[2:]), cache=cache)
    torch.testing.assert_close(
        torch.cat((first, rest), 1), layer(x, memory, mask=Explicit(pairs)), **ROUNDING
    )
