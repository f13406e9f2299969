"""Rows of one batch that differ: in padding, in length, in when they end, in who they descend from.

To rounding, as in test_same_as_whole: each row gives what it gives alone.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise import check
from headwise.core import Causal, Padding, SlidingWindow
from headwise.layers import KVCache, MultiHeadAttention, RingCache
from tests.layers.cache.stepping import CACHEABLE, CACHES, PAIRS, WITHOUT_WINDOW
from tests.layers.encodings import ENCODINGS, layer_with, words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}
few = settings(max_examples=6, deadline=None, derandomize=True, database=None)
MASK = Causal() & SlidingWindow(3)
cacheable = pytest.mark.parametrize("name", CACHEABLE)
each_with_a_cache = pytest.mark.parametrize(("name", "kind"), PAIRS)
kinds = pytest.mark.parametrize("kind", CACHES)


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


def real(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def alone(layer, rows):
    """The last output of each row, given alone and without a cache."""
    return torch.cat([layer(row[None])[:, -1:] for row in rows])


@cacheable
@few
@given(
    lengths=st.lists(st.integers(1, 5), min_size=2, max_size=3),
    left=st.booleans(),
    kind=st.sampled_from(list(CACHES)),
    of_all=st.booleans(),
    steps=st.integers(1, 3),
)
def test_a_padded_prompt_goes_on_as_each_row_alone(name, lengths, left, kind, of_all, steps):
    """Padding is given with the prompt alone, or at each step for all tokens so far.

    A window counts slots, so padding between prompt and answer would fill it: no window there.
    """
    kind = kind if left or kind in WITHOUT_WINDOW else "growing"
    layer = layer_with(name, 8, 4, kv_heads=2, mask=MASK if left else Causal())
    rows = [words(length + steps, 8) for length in lengths]
    longest, cache = max(lengths), CACHES[kind]()
    x, keep = words(len(rows), longest, 8), torch.zeros(len(rows), longest, dtype=torch.bool)
    for row, length, vectors in zip(range(len(rows)), lengths, rows, strict=True):
        place = slice(longest - length, longest) if left else slice(0, length)
        x[row, place], keep[row, place] = vectors[:length], True
    output = layer(x, mask=Padding(keep), cache=cache)
    for row, length, vectors in zip(range(len(rows)), lengths, rows, strict=True):
        torch.testing.assert_close(output[row][keep[row]], layer(vectors[None, :length])[0], **ROUNDING)
    for step in range(steps):
        new = torch.stack([row[length + step] for row, length in zip(rows, lengths, strict=True)])[:, None]
        keep = torch.cat((keep, torch.ones(len(rows), 1, dtype=torch.bool)), dim=1)
        output = layer(new, mask=Padding(keep) if of_all else None, cache=cache)
        so_far = [row[: length + step + 1] for row, length in zip(rows, lengths, strict=True)]
        torch.testing.assert_close(output, alone(layer, so_far), **ROUNDING)


@each_with_a_cache
def test_pads_count_for_nothing_however_the_prompt_is_cut(name, kind):
    layer, x = layer_with(name, 8, 4, kv_heads=2, mask=MASK), words(2, 6, 8)
    keep = real([0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1])
    whole = layer(x, mask=Padding(keep), positions=Padding(keep).positions())
    cache = CACHES[kind]()
    chunks = [layer(x[:, a:b], mask=Padding(keep[:, a:b]), cache=cache) for a, b in ((0, 1), (1, 3), (3, 6))]
    torch.testing.assert_close(torch.cat(chunks, 1)[keep], whole[keep], **ROUNDING)


def test_content_of_padding_does_not_matter():
    """To the last bit."""
    layer, x, keep = layer_with("alibi", mask=Causal()), words(2, 4, 8), real([0, 0, 1, 1], [0, 1, 1, 1])
    outputs = []
    for content in (0.0, 1e4):
        cache = KVCache()
        layer(torch.where(keep[..., None], x, content), mask=Padding(keep), cache=cache)
        outputs.append(layer(x[:, :1], cache=cache))
    assert torch.equal(*outputs)


@each_with_a_cache
def test_a_row_that_ended_does_not_disturb_and_can_go_on(name, kind):
    layer = layer_with(name, 8, 4, kv_heads=2, mask=Causal() & SlidingWindow(3))
    one, two, cache = words(4, 8), words(6, 8), CACHES[kind]()
    layer(torch.stack((one[:3], two[:3])), cache=cache)
    for step in (3, 4):
        output = layer(torch.stack((words(1, 8), two[None, step])), mask=Padding(real([0], [1])), cache=cache)
        torch.testing.assert_close(output[1:], alone(layer, [two[: step + 1]]), **ROUNDING)
    assert cache.next_positions(1).tolist() == [[3], [5]]
    if kind in WITHOUT_WINDOW:  # a window of slots has lost the row's own keys meanwhile
        layer.mask = Causal()
        output = layer(torch.stack((one[None, 3], two[None, 5])), cache=cache)
        torch.testing.assert_close(output, alone(layer, [one, two]), **ROUNDING)


@each_with_a_cache
def test_beams_give_what_each_beam_gives_alone(name, kind):
    layer = layer_with(name, 8, 4, kv_heads=2, mask=MASK)
    beams, cache = [words(3, 8)], CACHES[kind]()
    layer(beams[0][None], cache=cache)
    for parents in ([0, 0, 0], [2, 0, 0], [1, 1, 2], [0]):
        cache.reorder(torch.tensor(parents))
        new = words(len(parents), 1, 8)
        beams = [torch.cat((beams[parent], token)) for parent, token in zip(parents, new, strict=True)]
        torch.testing.assert_close(layer(new, cache=cache), alone(layer, beams), **ROUNDING)


@kinds
def test_beams_of_padded_rows(kind):
    layer, cache = layer_with("rotary, halves", 8, 4, kv_heads=2, mask=MASK), CACHES[kind]()
    one, two = words(2, 8), words(4, 8)
    x = torch.stack((torch.cat((words(2, 8), one)), two))
    layer(x, mask=Padding(real([0, 0, 1, 1], [1, 1, 1, 1])), cache=cache)
    cache.reorder(torch.tensor([1, 0, 0]))
    new = words(3, 1, 8)
    expected = alone(layer, [torch.cat(pair) for pair in zip((two, one, one), new, strict=True)])
    torch.testing.assert_close(layer(new, cache=cache), expected, **ROUNDING)


@cacheable
@few
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    padded=st.booleans(),
    bits=st.sampled_from([None, 8]),
)
def test_joined_caches_go_on_as_each_alone(name, lengths, padded, bits):
    layer = layer_with(name, 8, 4, kv_heads=2, mask=MASK)
    apart, rows = [KVCache(bits=bits) for _ in lengths], [words(length, 8) for length in lengths]
    for cache, row in zip(apart, rows, strict=True):
        if padded:
            layer(words(1, 1, 8), mask=Padding(real([0])), cache=cache)
        layer(row[None], cache=cache)
    together, twins = KVCache.join(apart), [cache.copy() for cache in apart]
    for _ in range(2):
        new = words(len(rows), 1, 8)
        expected = torch.cat([layer(token[None], cache=twin) for token, twin in zip(new, twins, strict=True)])
        torch.testing.assert_close(layer(new, cache=together), expected, **ROUNDING)


@pytest.mark.parametrize("side", ["left", "right"])
@cacheable
def test_the_check_of_unequal_rows_is_clean_on_ours(name, side):
    layer = MultiHeadAttention(8, 4, kv_heads=2, position=ENCODINGS[name](8, 4), mask=Causal()).eval()

    def start():
        cache = KVCache()
        return lambda chunk, keep: layer(chunk, mask=Padding(keep), cache=cache)

    report = check.cache(layer, start, check.Vectors(8), rows=side, lengths=(2, 6))
    assert report.passed, str(report)


def test_batch_rows_from_one_on_are_right_for_a_single_token():
    """The first call brings one token to each of three rows."""
    layer, x, cache = layer_with("rotary, halves", mask=Causal()), words(3, 3, 8), KVCache()
    steps = torch.cat([layer(token, cache=cache) for token in x.split(1, dim=1)], 1)
    for row in range(3):
        torch.testing.assert_close(steps[row], layer(x[row : row + 1])[0], **ROUNDING)


def test_a_ring_loses_no_count_of_a_row_that_ended_long_ago():
    layer, cache = layer_with("rotary, halves", mask=SlidingWindow(3)), RingCache(3)
    layer(words(2, 4, 8), cache=cache)
    for _ in range(200):
        layer(words(2, 1, 8), mask=Padding(real([0], [1])), cache=cache)
    assert cache.next_positions(1).tolist() == [[4], [204]]
