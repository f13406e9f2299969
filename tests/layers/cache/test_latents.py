"""Multi-head latent attention with a cache: the same as at once, and no more bytes than its latents have.

To rounding, as in test_same_as_whole: each way of adding up reads the same terms.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headwise import check
from headwise.core import Causal, HeadwiseError, Padding, SlidingWindow
from headwise.layers import (
    DynamicNTK,
    FixedCache,
    KVCache,
    MemoryCache,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    Rotary,
)
from tests.layers.cache.stepping import CACHES, WITHOUT_WINDOW, stepped
from tests.layers.cache.test_same_as_whole import cuts
from tests.layers.encodings import words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}
few = settings(max_examples=10, deadline=None, derandomize=True, database=None)
RANK, TURNING, WIDTH = 5, 2, 8
ways = pytest.mark.parametrize("way", ["cheaper", "opened", "closed"])


@pytest.fixture(autouse=True)
def _no_gradient():
    with torch.no_grad():
        yield


def build(mask, **kwargs):
    """A float64 layer whose every parameter is drawn, the weights so that outputs are of size about 1."""
    sizes = {"kv_rank": RANK, "head_dim": 4, "rotary_dim": TURNING, "value_dim": 3, "query_rank": 4}
    layer = MultiHeadLatentAttention(WIDTH, 4, mask=mask, bias=True, **{**sizes, **kwargs})
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer.double().eval()


def force(monkeypatch, way):
    if way != "cheaper":
        monkeypatch.setattr(
            MultiHeadLatentAttention, "_closed_is_cheaper", lambda *_: way == "closed", raising=True
        )


@ways
@pytest.mark.parametrize("kind", CACHES)
def test_token_by_token(monkeypatch, way, kind):
    layer, x = build(Causal() & SlidingWindow(3)), words(2, 9, WIDTH)
    whole = layer(x)
    force(monkeypatch, way)
    torch.testing.assert_close(stepped(layer, x, [1] * 9, CACHES[kind]()), whole, **ROUNDING)
    assert (whole - build(Causal() & SlidingWindow(3))(x)).abs().max() > 1e-3


@few
@given(data=st.data(), chunks=cuts(), batch=st.integers(1, 2), seed=st.integers(0, 999))
def test_chunks_give_what_the_whole_gives(data, chunks, batch, seed):
    torch.manual_seed(seed)
    window = data.draw(st.booleans())
    kind = data.draw(st.sampled_from(list(CACHES) if window else WITHOUT_WINDOW))
    layer = build(Causal() & SlidingWindow(3) if window else Causal())
    x = words(batch, sum(chunks), WIDTH)
    torch.testing.assert_close(stepped(layer, x, chunks, CACHES[kind]()), layer(x), **ROUNDING)


@ways
@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize("chunks", [[1] * 7, [4, 1, 2], [1, 3, 3]])
def test_padded_rows_and_a_window(monkeypatch, way, kind, chunks):
    """Left padding, told with each chunk: rows count from their first real token, and see no pad."""
    layer, x = build(Causal() & SlidingWindow(3)), words(2, 7, WIDTH)
    keep = torch.tensor([[False, False, True, True, True, True, True], [True] * 7])
    alone = torch.cat([layer(x[row, keep[row]][None])[0] for row in range(2)])
    whole = layer(x, mask=Padding(keep), positions=Padding(keep).positions())
    force(monkeypatch, way)
    cache, outputs, first = CACHES[kind](), [], 0
    for size in chunks:
        part = slice(first, first + size)
        outputs.append(layer(x[:, part], mask=Padding(keep[:, part]), cache=cache))
        first += size
    output = torch.cat(outputs, dim=1)
    torch.testing.assert_close(output[keep], whole[keep], **ROUNDING)
    torch.testing.assert_close(output[keep], alone, **ROUNDING)
    assert cache.next_positions(1).tolist() == [[5], [7]]


def test_bytes_are_those_of_the_latents():
    """7 numbers of 8 bytes a token and row, and a position: 4 heads would hold 4 * (4 + 2 + 3) numbers."""
    layer, cache = build(Causal()), FixedCache(16)
    layer(words(2, 9, WIDTH), cache=cache)
    assert cache.nbytes == 16 * (2 * (RANK + TURNING) * 8 + 8)
    heads, opened = MultiHeadAttention(WIDTH, 4, head_dim=6, value_dim=3).double(), FixedCache(16)
    heads(words(2, 9, WIDTH), cache=opened)
    assert opened.nbytes == 16 * (2 * 4 * (6 + 3) * 8 + 8)


def test_given_positions_are_kept_and_counted_on_from():
    layer, x, at = build(Causal()), words(2, 6, WIDTH), torch.tensor([0, 3, 4, 9, 10, 11])
    cache = KVCache()
    first = layer(x[:, :4], positions=at[:4], cache=cache)
    rest = stepped(layer, x[:, 4:], [1, 1], cache)
    torch.testing.assert_close(torch.cat((first, rest), 1), layer(x, positions=at), **ROUNDING)


def test_gradients_are_those_of_the_whole():
    """They add up all tokens, a hundred times more terms than an output."""
    with torch.enable_grad():
        layer, x, cache = build(Causal()), words(2, 5, WIDTH), KVCache()
        whole = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
        outputs = torch.cat([layer(chunk, cache=cache) for chunk in x.split([2, 1, 2], dim=1)], 1)
        ours = torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))
    for one, other in zip(ours, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-10)


def test_the_check_for_anybodys_cache_is_clean_on_ours():
    layer = MultiHeadLatentAttention(WIDTH, 2, kv_rank=5, head_dim=4, rotary_dim=2, mask=Causal()).eval()

    def start(module):
        cache = KVCache()
        return lambda chunk: module(chunk, cache=cache)

    checked = check.layer(layer, expect="causal", start=start, only="cache")
    assert checked.passed, str(checked)


def test_what_does_not_fit_is_refused_and_leaves_the_cache_as_it_was():
    layer, x, cache = build(Causal()), words(1, 2, WIDTH), KVCache()
    with pytest.raises(HeadwiseError, match="cache must be None where latents are given"):
        layer(x, latents=layer.compress(x), cache=cache)
    with pytest.raises(HeadwiseError, match="MultiHeadLatentAttention: cache must be a KVCache, got Memory"):
        layer(x, cache=MemoryCache())
    with pytest.raises(HeadwiseError, match="MultiHeadLatentAttention: cache must be a KVCache, or None"):
        layer(x, cache=[])
    with pytest.raises(HeadwiseError, match="positions must be integers of shape"):
        layer(x, positions=torch.arange(3), cache=cache)
    grows = build(Causal(), position=Rotary(scaling=DynamicNTK(2.0, 4), length="positions"))
    with pytest.raises(HeadwiseError, match="MultiHeadLatentAttention: position must be an encoding that"):
        grows(x, cache=cache)
    assert len(cache) == 0
