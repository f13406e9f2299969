"""Faults that other libraries' caches had, and the test here that would have caught each.

The numbers are those of the project's survey: the reference says where the fault was reported or repaired.
"""

import importlib

import pytest
import torch

from headwise.core import Causal, SlidingWindow
from headwise.layers import ALiBi, KVCache, MultiHeadAttention, RingCache
from tests.layers.encodings import layer_with, words

SAME, ROWS, LIFE = "test_same_as_whole", "test_rows", "test_life"
MEMORY, HERE = "test_memory", "test_reported_faults"

TABLE = {
    7: (
        "transformers#25104: keys turned with an older base",
        SAME,
        "test_the_encodings_that_do_not_keep_are_refused",
    ),
    9: (
        "transformers#33129: long factors with an old cache",
        SAME,
        "test_the_encodings_that_do_not_keep_are_refused",
    ),
    26: (
        "mlx#3494: rows from one on, single token",
        ROWS,
        "test_batch_rows_from_one_on_are_right_for_a_single_token",
    ),
    36: ("x-transformers#103: bias ignores the offset", SAME, "test_chunks_give_what_the_whole_gives"),
    38: ("x-transformers#90: wrong after other shapes", LIFE, "test_a_second_use_is_as_a_fresh_one"),
    43: (
        "flash-attention#907: ALiBi while decoding",
        HERE,
        "test_a_step_adds_the_bias_of_its_absolute_place",
    ),
    56: (
        "TransformerLens#772: mask ignored with a cache",
        ROWS,
        "test_a_padded_prompt_goes_on_as_each_row_alone",
    ),
    61: (
        "unsloth#3699: positions count pads",
        ROWS,
        "test_pads_count_for_nothing_however_the_prompt_is_cut",
    ),
    64: (
        "TransformerEngine#1212: window off by one",
        HERE,
        "test_a_step_of_a_window_sees_exactly_that_many_keys",
    ),
    65: (
        "transformers#39408: window off by one",
        HERE,
        "test_a_step_of_a_window_sees_exactly_that_many_keys",
    ),
    66: ("mlx-lm#390: <= for <", HERE, "test_a_step_of_a_window_sees_exactly_that_many_keys"),
    68: (
        "flash-attention#2251: window as long as all",
        HERE,
        "test_a_window_as_long_as_the_sequence_is_causal",
    ),
    69: (
        "flash-attention#1795: one length for all rows",
        HERE,
        "test_positions_of_all_rows_are_those_of_each_row",
    ),
    71: ("mlx-lm#1093: ring off by one", SAME, "test_the_check_for_anybodys_cache_is_clean_on_ours"),
    72: ("mlx-lm#1699: offset shared by copies", LIFE, "test_a_copy_is_equal_and_apart"),
    73: ("litgpt#2153: cache of windowed layers", SAME, "test_token_by_token"),
    75: ("fla#748: one length for all layers", LIFE, "test_each_layer_counts_its_own_tokens"),
    76: ("x-transformers#234: batched positions", SAME, "test_positions_of_each_row_are_counted_on_from"),
    77: ("transformers#44873: offset of an earlier request", LIFE, "test_a_second_use_is_as_a_fresh_one"),
    78: ("maclocal-api#92: merged caches", ROWS, "test_joined_caches_go_on_as_each_alone"),
    "L2": ("litgpt: a ring's old keys leak", SAME, "test_the_check_for_anybodys_cache_is_clean_on_ours"),
    "L8": ("rotary-embedding-torch: xPos centre moves", SAME, "test_chunks_give_what_the_whole_gives"),
    "L9": ("flash-attention: xPos centre moves", SAME, "test_chunks_give_what_the_whole_gives"),
    "L14": ("x-transformers: gates of this chunk only", SAME, "test_chunks_give_what_the_whole_gives"),
    "L16": (
        "transformers: dynamic NTK keeps its longest",
        SAME,
        "test_the_encodings_that_do_not_keep_are_refused",
    ),
    "cross": ("a second memory reads the first one's keys", MEMORY, "test_copies_and_a_second_memory"),
}


@pytest.mark.parametrize("entry", TABLE)
def test_the_table_names_tests_that_are_there(entry):
    _, module, name = TABLE[entry]
    assert callable(getattr(importlib.import_module(f"tests.layers.cache.{module}"), name))


@torch.no_grad()
def test_a_step_adds_the_bias_of_its_absolute_place():
    """With keys of zeros the scores are the bias, -slope (9 - j), with slopes of 1/16 and 1/256."""
    layer = MultiHeadAttention(4, 2, position=ALiBi(2), mask=Causal()).double()
    torch.nn.init.zeros_(layer.key.weight)
    x, cache = words(1, 10, 4), KVCache()
    layer(x[:, :9], cache=cache)
    weights = layer.with_weights(x[:, 9:], cache=cache).weights.dense()[0, :, 0]
    back = torch.arange(9, -1, -1, dtype=torch.float64)
    expected = torch.stack([torch.exp(-slope * back) for slope in (2.0**-4, 2.0**-8)])
    torch.testing.assert_close(weights, expected / expected.sum(-1, keepdim=True), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("ring", [False, True])
@torch.no_grad()
def test_a_step_of_a_window_sees_exactly_that_many_keys(window, ring):
    layer, x = layer_with("none", mask=SlidingWindow(window)), words(1, 12, 8)
    cache = RingCache(window) if ring else KVCache()
    for first in range(11):
        layer(x[:, first : first + 1], cache=cache)
    weights = layer.with_weights(x[:, 11:], cache=cache).weights.dense()[0, 0, 0]
    assert int((weights > 0).sum()) == window
    assert bool((weights[-window:] > 0).all())


@torch.no_grad()
def test_a_window_as_long_as_the_sequence_is_causal():
    """To rounding, 1e-12."""
    layer, x, cache = layer_with("alibi", mask=SlidingWindow(7)), words(2, 7, 8), RingCache(7)
    steps = torch.cat([layer(token, cache=cache) for token in x.split(1, dim=1)], 1)
    layer.mask = Causal()
    torch.testing.assert_close(steps, layer(x), rtol=0.0, atol=1e-12)


@torch.no_grad()
def test_positions_of_all_rows_are_those_of_each_row():
    """One row of positions for all rows, and the same one given for each; to the last bit."""
    layer, x, outputs = layer_with("rotary, halves", mask=Causal()), words(3, 5, 8), []
    for at in (torch.arange(4) + 3, (torch.arange(4) + 3).expand(3, 4)):
        cache = KVCache()
        layer(x[:, :4], positions=at, cache=cache)
        outputs.append(layer(x[:, 4:], cache=cache))
    assert torch.equal(*outputs)
