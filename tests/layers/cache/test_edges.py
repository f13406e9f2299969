"""What happens at the edges of caches: rollback of queries, other places, empty calls, several axes.

Each compares with a call without a cache, to the rounding of a few sums of float64.
"""

from functools import partial

import pytest
import torch

from headwise.core import Causal, Explicit, HeadwiseError
from headwise.layers import (
    Chain,
    Decoder,
    FixedCache,
    KVCache,
    LanguageModel,
    MemoryCache,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultimodalRotary,
    Rotary,
    TokenEmbedding,
    generate,
    make_blocks,
)
from tests.layers.encodings import words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


def turning(**kwargs):
    return MultiHeadAttention(8, 2, position=Rotary(), **kwargs).double().eval()


def test_an_explicit_mask_of_static_slots_has_a_row_for_each():
    layer, x = turning(), words(1, 5, 8)
    pairs = torch.eye(8, dtype=torch.bool) | (torch.rand(8, 8) > 0.5)
    whole = layer(x, mask=Explicit(pairs[:5, :5]))
    cache = FixedCache(8, static=True)
    steps = [layer(chunk, mask=Explicit(pairs), cache=cache) for chunk in x.split([2, 1, 2], dim=1)]
    seen_later = pairs[:5, :5].triu(1).any(1)  # a step cannot see what has not come
    alone = ~seen_later
    torch.testing.assert_close(torch.cat(steps, 1)[:, alone], whole[:, alone], **ROUNDING)


@pytest.mark.parametrize(("keep", "after"), [(2, 8), (1, 1), (0, 0)])
def test_a_rollback_of_queries_counts_on_from_the_last_that_stays(keep, after):
    layer, cache, x, memory = turning(), MemoryCache(), words(1, 2, 8), words(1, 6, 8)
    layer(x, memory, positions=torch.tensor([0, 7]), cache=cache)
    cache.crop(keep)
    assert len(cache) == keep
    assert cache.next_positions(1).flatten().tolist() == [after]


def test_a_memory_changed_in_place_is_another():
    layer, cache, x, memory = turning(), MemoryCache(), words(1, 2, 8), words(1, 6, 8)
    layer(x[:, :1], memory, cache=cache)
    layer(x[:, 1:], memory, cache=cache)
    memory.mul_(3)
    with pytest.raises(HeadwiseError, match="memory must be the one it was filled with"):
        layer(x[:, 1:], memory, cache=cache)


def test_a_cache_of_a_memory_moves_with_its_layer():
    layer, cache, x, memory = turning().float(), MemoryCache(), words(1, 2, 8).float(), words(1, 6, 8).float()
    layer(x[:, :1], memory, cache=cache)
    layer.double()
    cache.to(dtype=torch.float64)
    output = layer(x[:, 1:].double(), memory.double(), cache=cache)
    # keys were made in float32: a dozen roundings of sums of eight
    torch.testing.assert_close(output, layer(x.double(), memory.double())[:, 1:], rtol=0.0, atol=1e-5)


def test_no_queries_and_no_memory_are_calls_too():
    layer, x = turning(), words(2, 3, 8)
    cache = MemoryCache()
    layer(x[:, :1], words(2, 6, 8), cache=cache)
    assert layer(x[:, :0], cache=cache).shape == (2, 0, 8)
    assert cache.next_positions(1).flatten().tolist() == [1]
    nothing = MemoryCache()
    first = layer(x, words(2, 0, 8), cache=nothing)
    assert torch.equal(layer(x, cache=nothing), first)


def test_reordered_rows_of_queries_count_on_as_they_did():
    layer, cache, x = turning(), MemoryCache(), words(2, 1, 8)
    layer(x, words(2, 4, 8), positions=torch.tensor([[3], [9]]), cache=cache)
    cache.reorder(torch.tensor([1, 0]))
    assert cache.next_positions(1).tolist() == [[10], [4]]


def test_what_one_copy_takes_back_stays_in_the_other():
    layer, cache, x, memory = turning(), MemoryCache(), words(1, 3, 8), words(1, 6, 8)
    layer(x, memory, cache=cache)
    twin = cache.copy()
    twin.crop(1)
    assert cache.next_positions(1).item() == 3
    assert twin.next_positions(1).item() == 1


def test_a_language_model_on_several_axes_writes_with_its_cache():
    attention = partial(MultiHeadAttention, heads=2, position=MultimodalRotary((2, 2, 2)))
    model = LanguageModel(TokenEmbedding(20, 24), Decoder(make_blocks(2, 24, attention=attention)))
    model = model.double().eval()
    tokens = torch.tensor([[1, 2, 3, 4]])
    assert torch.equal(generate(model, tokens, 6), generate(model, tokens, 6, make_cache=None))
    keep = torch.tensor([[False, True, True, True]])
    torch.testing.assert_close(model(tokens, keep=keep)[:, 1:], model(tokens[:, 1:]), **ROUNDING)


def test_a_chain_takes_the_positions_its_first_encoding_takes():
    x = words(1, 4, 12)
    torch.manual_seed(0)
    chained = MultiHeadAttention(12, 2, position=Chain(MultimodalRotary((1, 1, 1)))).double()
    torch.manual_seed(0)
    alone = MultiHeadAttention(12, 2, position=MultimodalRotary((1, 1, 1))).double()
    assert torch.equal(chained(x), alone(x))


def test_queries_without_positions_are_the_last_of_the_latents():
    layer = MultiHeadLatentAttention(8, 2, kv_rank=6, head_dim=4, rotary_dim=2, mask=Causal()).double().eval()
    x = words(2, 6, 8)
    torch.testing.assert_close(layer(x[:, -2:], latents=layer.compress(x)), layer(x)[:, -2:], **ROUNDING)


def test_a_tiny_scale_with_sinks_in_half_precision():
    """Scores of about 1e-5 leave the keys even: the sink takes its share, 1 / (1 + n e^-t)."""
    layer = MultiHeadAttention(8, 2, scale=1e-5, sinks=0.0).half()
    weights = layer.with_weights(words(1, 3, 8).half()).weights
    torch.testing.assert_close(weights.dense().sum(-1), torch.full((1, 2, 3), 0.75), rtol=0.0, atol=1e-3)
    assert layer(words(1, 3, 8).half()).isfinite().all()


def test_a_growing_cache_keeps_the_positions_it_is_given():
    cache, k = KVCache(), torch.zeros(2, 1, 3, 4)
    with pytest.raises(HeadwiseError, match="positions must be"):
        cache.append(k, k, positions=torch.tensor([0.5, 1.5, 2.5]))
    assert len(cache) == 0


@pytest.mark.parametrize("told", [torch.arange(5), torch.arange(1)], ids=["another length", "one for all"])
def test_a_memory_is_not_said_to_have_another_length(told):
    layer, cache, x, memory = turning(), MemoryCache(), words(1, 2, 8), words(1, 7, 8)
    layer(x[:, :1], memory, cache=cache)
    with pytest.raises(HeadwiseError, match=r"MemoryCache: memory_positions must be .*\[7\]"):
        layer(x[:, 1:], memory_positions=told, cache=cache)
    layer(x[:, 1:], memory_positions=torch.arange(7), cache=cache)
    assert len(cache) == 2


def test_queries_of_all_rows_and_of_each_follow_each_other():
    layer, cache, x, memory = turning(), MemoryCache(), words(2, 4, 8), words(2, 6, 8)
    layer(x[:, :1], memory, cache=cache)  # at 0 in both rows
    layer(x[:, 1:3], positions=torch.tensor([[3, 4], [7, 9]]), cache=cache)
    layer(x[:, 3:], positions=torch.tensor([20]), cache=cache)
    assert cache.next_positions(1).tolist() == [[21], [21]]
    cache.crop(2)
    assert cache.next_positions(1).tolist() == [[4], [8]]
    cache.crop(1)
    assert cache.next_positions(1).tolist() == [[1], [1]]
