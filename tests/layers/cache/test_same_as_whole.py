"""A sequence in chunks through a cache gives what the whole sequence gives at once.

To rounding: the same terms in another order, ten of size about 1, a few products deep, agree to 1e-12.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise import check
from headwise.core import Causal, Documents, Explicit, HeadwiseError, Prefix, SlidingWindow
from headwise.layers import KVCache, MultiHeadAttention, RingCache
from tests.layers.cache.stepping import CACHEABLE, CACHES, PAIRS, REFUSED, WITHOUT_WINDOW, stepped
from tests.layers.encodings import ENCODINGS, layer_with, words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}
SUMMED = {"rtol": 0.0, "atol": 1e-10}  # gradients add up all tokens: a hundred times more terms
few = settings(max_examples=8, deadline=None, derandomize=True, database=None)
MASKS = {
    "causal": Causal(),
    "causal & window 3": Causal() & SlidingWindow(3),
    "window 2": SlidingWindow(2),
    "window 1": SlidingWindow(1),
}
cacheable = pytest.mark.parametrize("name", CACHEABLE)
each_with_a_cache = pytest.mark.parametrize(("name", "kind"), PAIRS)


@st.composite
def cuts(draw, most=12):
    """Sizes of chunks that follow each other, one to ``most`` tokens in all."""
    left, sizes = draw(st.integers(1, most)), []
    while left:
        sizes.append(draw(st.integers(1, left)))
        left -= sizes[-1]
    return sizes


def build(name, seed, **kwargs):
    torch.manual_seed(seed)
    return layer_with(name, 8, 4, kv_heads=2, **kwargs)


@cacheable
@few
@given(data=st.data(), chunks=cuts(), batch=st.integers(1, 2), seed=st.integers(0, 999))
def test_chunks_give_what_the_whole_gives(name, data, chunks, batch, seed):
    mask_name = data.draw(st.sampled_from(list(MASKS)))
    kind = data.draw(st.sampled_from(list(CACHES) if "window" in mask_name else WITHOUT_WINDOW))
    layer, x = build(name, seed, mask=MASKS[mask_name]), words(batch, sum(chunks), 8)
    torch.testing.assert_close(stepped(layer, x, chunks, CACHES[kind]()), layer(x), **ROUNDING)


@cacheable
def test_token_by_token(name):
    for mask, kind in ((Causal(), "growing"), (SlidingWindow(3), "ring")):
        layer, x = build(name, 0, mask=mask), words(2, 9, 8)
        torch.testing.assert_close(stepped(layer, x, [1] * 9, CACHES[kind]()), layer(x), **ROUNDING)


@each_with_a_cache
@torch.no_grad()
def test_weights_of_a_step_are_the_last_rows_of_all(name, kind):
    layer, x = build(name, 0, mask=Causal() & SlidingWindow(3)), words(2, 7, 8)
    whole, cache = layer.with_weights(x), CACHES[kind]()
    layer(x[:, :5], cache=cache)
    step = layer.with_weights(x[:, 5:], cache=cache)
    torch.testing.assert_close(step.output, whole.output[:, 5:], **ROUNDING)
    seen = min(step.weights.shape[-1], 7)
    ours = step.weights.dense()[..., :seen]
    torch.testing.assert_close(ours, whole.weights.dense()[:, :, 5:, 7 - seen :], **ROUNDING)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@each_with_a_cache
def test_the_check_for_anybodys_cache_is_clean_on_ours(name, kind, dtype):
    """Its limits come from the dtype: the sums that may be added in another order, and a rounding a step."""
    window = 3 if "ring" in kind else None
    mask = Causal() & SlidingWindow(window) if window else Causal()
    layer = build(name, 0, mask=mask).to(dtype)

    def start():
        cache = CACHES[kind]()
        return lambda chunk: layer(chunk, cache=cache)

    with torch.no_grad():
        report = check.cache(layer, start, check.Vectors(8, dtype), window=window, lengths=(2, 9))
    assert report.passed, str(report)


@cacheable
def test_positions_that_are_given_are_kept_and_counted_on_from(name):
    layer, x, at = build(name, 0, mask=Causal()), words(2, 6, 8), torch.tensor([0, 3, 4, 9, 10, 11])
    whole, cache = layer(x, positions=at), KVCache()
    first = layer(x[:, :4], positions=at[:4], cache=cache)
    rest = stepped(layer, x[:, 4:], [1, 1], cache)
    torch.testing.assert_close(torch.cat((first, rest), 1), whole, **ROUNDING)


@cacheable
def test_positions_of_each_row_are_counted_on_from(name):
    layer, x = build(name, 0, mask=Causal()), words(2, 6, 8)
    at = torch.stack((torch.arange(6), torch.arange(6) + 40))
    cache = KVCache()
    first = layer(x[:, :3], positions=at[:, :3], cache=cache)
    rest = stepped(layer, x[:, 3:], [2, 1], cache)
    torch.testing.assert_close(torch.cat((first, rest), 1), layer(x, positions=at), **ROUNDING)


@pytest.mark.parametrize("kind", WITHOUT_WINDOW)
@torch.no_grad()
def test_masks_that_hold_something_of_each_token(kind):
    """They are given for all tokens so far; a static cache wants a place for those to come, too."""
    layer, x = build("rotary, halves", 0), words(2, 6, 8)
    ids = torch.tensor([[0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 2, 2]])
    pairs = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) < 0.7

    def masks(stop, keys):
        later = keys - stop
        more = torch.nn.functional.pad(pairs[:stop, :stop], (0, later, 0, later))
        shown = torch.nn.functional.pad(ids[:, :stop], (0, later), value=-1)
        return Causal() & Documents(shown) & Explicit(more)

    whole = layer(x, mask=masks(6, 6))
    cache, outputs = CACHES[kind](), []
    for first, stop in ((0, 2), (2, 3), (3, 6)):
        mask = masks(stop, cache.keys(stop - first))
        outputs.append(layer(x[:, first:stop], mask=mask, cache=cache))
    torch.testing.assert_close(torch.cat(outputs, 1), whole, **ROUNDING)


@torch.no_grad()
def test_slots_to_come_are_hidden_where_nothing_else_is():
    """To rounding: a layer without a mask sees all its tokens, and of a static cache not the rest."""
    layer, x = build("alibi", 0), words(2, 3, 8)
    torch.testing.assert_close(layer(x, cache=CACHES["static"]()), layer(x), **ROUNDING)


def test_a_prefix_comes_in_one_chunk():
    layer, x = build("alibi", 0, mask=Prefix(3)), words(2, 7, 8)
    torch.testing.assert_close(stepped(layer, x, [4, 1, 2], KVCache()), layer(x), **ROUNDING)


@cacheable
def test_gradients_are_those_of_the_whole(name):
    layer, x = build(name, 0, mask=Causal()), words(2, 5, 8)
    whole = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    cache = KVCache()
    outputs = torch.cat([layer(chunk, cache=cache) for chunk in x.split([2, 1, 2], dim=1)], 1)
    ours = torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))
    for one, other in zip(ours, whole, strict=True):
        torch.testing.assert_close(one, other, **SUMMED)


def test_the_encodings_that_do_not_keep_are_refused():
    class Stretched(type(ENCODINGS["rotary, halves"](8, 2))):
        cacheable = False

    layer = MultiHeadAttention(8, 2, position=Stretched(), mask=Causal())
    cache = KVCache()
    with pytest.raises(HeadwiseError, match="position must be an encoding that claims to be cacheable"):
        layer(torch.zeros(1, 2, 8), cache=cache)
    assert len(cache) == 0
    for name in REFUSED:
        with pytest.raises(HeadwiseError, match="claims to be cacheable"):
            build(name, 0)(words(1, 2, 8), cache=KVCache())


def test_the_check_of_a_layer_takes_the_cache_too():
    layer = MultiHeadAttention(
        8, 4, kv_heads=2, position=ENCODINGS["rotary, halves"](8, 4), mask=SlidingWindow(3)
    )

    def start(module):
        cache = RingCache(3)
        return lambda chunk: module(chunk, cache=cache)

    checked = check.layer(layer, expect="causal window=3", start=start, only="cache")
    assert checked.passed, str(checked)
    assert "cache" in str(checked)
