"""What a cache goes through: rollback, copies, moves, a second use, and its end."""

import copy

import pytest
import torch

from headwise.core import Causal, HeadwiseError, Padding, SlidingWindow
from headwise.layers import FixedCache, KVCache, MemoryCache, RingCache
from tests.layers.cache.stepping import CACHEABLE, CACHES, WITHOUT_WINDOW, stepped
from tests.layers.encodings import layer_with, words

kinds = pytest.mark.parametrize("kind", CACHES)
ROUNDING = {"rtol": 0.0, "atol": 1e-12}


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


@pytest.fixture
def layer():
    return layer_with("rotary, halves", 8, 4, kv_heads=2, mask=SlidingWindow(3))


def padded(x, *rows):
    return {"x": x, "mask": Padding(torch.tensor(rows, dtype=torch.bool))}


@pytest.mark.parametrize(
    ("kind", "refused"), [(kind, 1) for kind in CACHES] + [("growing", 4), ("ring with spare", 2)]
)
def test_what_was_cropped_never_came(layer, kind, refused):
    """To the last bit: the same tensors, though other tokens were written behind them in between.

    A ring takes back its last call and as many more as it has spare slots.
    """
    x, plain, cropped = words(2, 9, 8), CACHES[kind](), CACHES[kind]()
    for first in range(0, 9, 3):
        for cache in (plain, cropped):
            layer(x[:, first : first + 2], cache=cache)
        for _ in range(refused):
            layer(words(2, 1, 8), cache=cropped)
        cropped.crop(first + 2)
        assert len(cropped) == len(plain)
        last = x[:, first + 2 : first + 3]
        assert torch.equal(layer(last, cache=cropped), layer(last, cache=plain))


@kinds
def test_positions_after_a_rollback_of_padded_rows(layer, kind):
    cache = CACHES[kind]()
    layer(**padded(words(2, 3, 8), [0, 0, 1], [0, 1, 1]), cache=cache)
    layer(**padded(words(2, 2, 8), [1, 0], [1, 1]), cache=cache)
    assert cache.next_positions(1).tolist() == [[2], [4]]
    cache.crop(4)
    assert cache.next_positions(1).tolist() == [[2], [3]]
    cache.crop(3)
    assert cache.next_positions(1).tolist() == [[1], [2]]


def test_a_ring_goes_back_as_far_as_it_holds_what_the_next_token_sees(layer):
    cache, x = RingCache(3, spare=2), words(1, 12, 8)
    stepped(layer, x, [1] * 12, cache)
    cache.crop(9)  # the last call and the two spare ones
    assert torch.equal(
        layer(x[:, 9:10], cache=cache), stepped(layer, x[:, :10], [1] * 10, RingCache(3))[:, 9:]
    )
    with pytest.raises(HeadwiseError, match="length must be 0, or from 9 to 10, got 8"):
        cache.crop(8)


@kinds
def test_two_caches_do_not_know_each_other(layer, kind):
    """To the last bit."""
    x, y, one, two = words(2, 6, 8), words(2, 6, 8), CACHES[kind](), CACHES[kind]()
    outputs = []
    for first in range(6):
        outputs.append(layer(x[:, first : first + 1], cache=one))
        layer(y[:, first : first + 1], cache=two)
    assert torch.equal(torch.cat(outputs, 1), stepped(layer, x, [1] * 6, CACHES[kind]()))


@kinds
@pytest.mark.parametrize("copied", [lambda cache: cache.copy(), copy.copy, copy.deepcopy])
def test_a_copy_is_equal_and_apart(layer, kind, copied):
    """To the last bit, though each writes its own tokens in turn where the other has written."""
    x, one, two = words(2, 3, 8), words(2, 3, 8), words(2, 3, 8)
    cache = CACHES[kind]()
    layer(x, cache=cache)
    twin, outputs = copied(cache), []
    for first in range(3):
        outputs.append([layer(y[:, first : first + 1], cache=c) for y, c in ((one, cache), (two, twin))])
    for y, ours in zip((one, two), zip(*outputs, strict=True), strict=True):
        expected = stepped(layer, torch.cat((x, y), 1), [3, 1, 1, 1], CACHES[kind]())[:, 3:]
        assert torch.equal(torch.cat(ours, 1), expected)
    assert len(cache) == len(twin) == 6


@kinds
def test_a_second_use_is_as_a_fresh_one(layer, kind):
    """To the last bit: after another batch, another length, padding, and positions that were given."""
    x, cache = words(2, 7, 8), CACHES[kind]()
    layer(**padded(words(3, 5, 8), [0, 1, 1, 1, 1], [1] * 5, [1] * 5), cache=cache)
    layer(words(3, 1, 8), positions=torch.tensor([[90], [9], [7]]), cache=cache)
    cache.clear()
    assert len(cache) == 0
    assert torch.equal(stepped(layer, x, [3, 1, 3], cache), stepped(layer, x, [3, 1, 3], CACHES[kind]()))


def test_a_second_use_takes_no_more_memory():
    cache, k = FixedCache(8), torch.randn(2, 2, 5, 4)
    cache.append(k, k)
    before = cache._slots.tensors["k"].data_ptr()
    cache.clear()
    cache.append(k, k)
    assert cache._slots.tensors["k"].data_ptr() == before


def test_each_layer_counts_its_own_tokens():
    """A stack of two: the second layer's cache is not moved on by the first."""
    layers = [layer_with("rotary, halves", mask=Causal()) for _ in range(2)]
    x, caches = words(1, 5, 8), [KVCache(), KVCache()]
    whole = layers[1](layers[0](x))
    steps = [layers[1](layers[0](t, cache=caches[0]), cache=caches[1]) for t in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, **ROUNDING)
    assert [len(cache) for cache in caches] == [5, 5]


def test_a_call_that_is_refused_leaves_the_cache_as_it_was(layer):
    cache, x = KVCache(), words(2, 4, 8)
    layer(x[:, :3], cache=cache)
    for wrong in (
        {"mask": Padding(torch.ones(2, 9, dtype=torch.bool))},
        {"positions": torch.arange(9)},
        {"x": words(3, 1, 8)},
    ):
        with pytest.raises(HeadwiseError):
            layer(**{"x": x[:, 3:], "cache": cache, **wrong})
    assert len(cache) == 3
    torch.testing.assert_close(layer(x[:, 3:], cache=cache), layer(x)[:, 3:], **ROUNDING)


@pytest.mark.parametrize("static", [False, True])
def test_a_fixed_cache_says_when_it_is_full(layer, static):
    cache, x = FixedCache(4, static=static), words(1, 5, 8)
    layer(x[:, :3], cache=cache)
    assert not cache.full
    with pytest.raises(HeadwiseError, match="must be at most capacity=4, got 3 and 2 more"):
        layer(x[:, 3:], cache=cache)
    layer(x[:, 3:4], cache=cache)
    assert cache.full
    torch.testing.assert_close(layer(x)[:, :4], stepped(layer, x[:, :4], [4], FixedCache(4)), **ROUNDING)


@kinds
def test_moved_to_another_dtype(kind):
    layer = layer_with("rotary, halves", mask=SlidingWindow(3)).float()
    cache, x = CACHES[kind](), torch.randn(1, 5, 8)
    layer(x[:, :4], cache=cache)
    half, double = cache.copy().to(dtype=torch.bfloat16), cache.copy().to("cpu", torch.float64)
    at_once = layer(x)[:, 4:]
    exact = layer.double()(x[:, 4:].double(), cache=double)
    # keys and values are those of float32: a few roundings of it, of outputs of size about 1
    torch.testing.assert_close(exact.float(), at_once, rtol=0.0, atol=1e-5)
    rough = layer.bfloat16()(x[:, 4:].bfloat16(), cache=half)
    torch.testing.assert_close(rough.float(), at_once, rtol=0.0, atol=0.1)  # of bfloat16 likewise
    assert cache.append(*torch.randn(2, 1, 2, 1, 4)).k.dtype == torch.float32


def test_what_inference_mode_stored_can_be_gone_on_with(layer):
    x, cache = words(1, 4, 8), KVCache()
    with torch.inference_mode():
        layer(x[:, :2], cache=cache)
    outputs = [layer(x[:, 2:3], cache=cache)]
    with torch.inference_mode():
        outputs.append(layer(x[:, 3:], cache=cache).clone())
    torch.testing.assert_close(torch.cat(outputs, 1), layer(x)[:, 2:], **ROUNDING)


@pytest.mark.parametrize("kind", WITHOUT_WINDOW)
def test_weights_seen_earlier_stay_true(layer, kind):
    """A lazy map is read after its cache went back and was written over."""
    x, cache = words(1, 6, 8), CACHES[kind]()
    layer(x[:, :4], cache=cache)
    weights = layer.with_weights(x[:, 4:], cache=cache).weights
    before = weights.dense()
    cache.crop(3)
    layer(words(1, 3, 8), cache=cache)
    assert torch.equal(weights.dense(), before)


def test_bytes_are_those_of_what_is_stored():
    """Two tensors of 2 rows, 4 heads, 32 slots and 8 numbers of 2 bytes, and a position for each slot."""
    cache, k = FixedCache(32), torch.zeros(2, 4, 5, 8, dtype=torch.bfloat16)
    assert cache.nbytes == 0
    cache.append(k, k)
    assert cache.nbytes == 2 * (2 * 4 * 32 * 8 * 2) + 32 * 8


def test_an_empty_cache_is_true_and_has_a_face():
    assert KVCache()
    assert repr(KVCache()) == "KVCache(0 tokens)"
    assert repr(FixedCache(8, static=True, bits=8)) == "FixedCache(0 tokens, capacity=8, static, bits=8)"
    assert repr(RingCache(8, spare=2)) == "RingCache(0 tokens, window=8, spare=2)"
    assert repr(MemoryCache()) == "MemoryCache(0 tokens, memory of 0)"
    cache = KVCache()
    cache.append(*torch.zeros(2, 2, 4, 5, 8))
    assert repr(cache).startswith("KVCache(5 tokens; 2 rows, 4 heads, float32, ")


def test_positions_with_several_axes_go_on_behind_all_of_them():
    """As text after an image does: at one more than the largest row, column and time."""
    cache, k = KVCache(), torch.zeros(1, 1, 3, 4)
    image = torch.tensor([[0, 0, 0], [0, 0, 5], [0, 1, 0]])
    assert torch.equal(cache.append(k, k, image, axes=3).positions, image)
    assert cache.next_positions(2, axes=3).tolist() == [[6, 6, 6], [7, 7, 7]]
    keep = torch.tensor([[True, False]])
    cache.append(k[:, :, :2], k[:, :, :2], torch.tensor([[6, 6, 6], [50, 50, 50]]), keep, axes=3)
    assert cache.next_positions(1, axes=3).tolist() == [[7, 7, 7]]
    cache.crop(3)
    assert cache.next_positions(1, axes=3).tolist() == [[6, 6, 6]]


def test_the_table_has_encodings():
    assert len(CACHEABLE) >= 7
