"""Eight bits for a number: how far keys and values, and what attention makes of them, may be off."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import Causal, SlidingWindow
from headwise.layers import FixedCache, KVCache, RingCache
from headwise.layers.cache.eight_bits import decode, encode
from tests.layers.cache.stepping import stepped
from tests.layers.encodings import layer_with, words

few = settings(max_examples=30, deadline=None, derandomize=True, database=None)
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def half_a_step(x):
    """The most a number may be off: half a scale, which is the token's largest number over 127.

    More by rounding: the scale is a float32 (2^-24), and so are the quotient and the product, each of at most
    127 scales: 3 * 127 * 2^-24 of a scale. What comes back is rounded to the dtype, half an eps of itself.
    """
    largest = x.double().abs().amax(-1, keepdim=True)
    return largest / 127 * (0.5 + 3 * 127 * 2**-24) + largest * torch.finfo(x.dtype).eps / 2


@few
@given(
    numbers=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=9),
    dtype=st.sampled_from(DTYPES),
    power=st.integers(-20, 0),
)
def test_each_number_is_off_by_half_a_step_at_most(numbers, dtype, power):
    x = (torch.tensor(numbers, dtype=torch.float64) * 2.0**power).to(dtype)[None, None, None]
    x = torch.where(x.abs() < 1e-6, 0.0, x)  # a half-precision result below its normal numbers is coarser
    back = decode(*encode(x), dtype)
    assert back.dtype == dtype
    assert bool(((back.double() - x.double()).abs() <= half_a_step(x)).all())


def test_each_token_and_head_has_a_scale_of_its_own():
    """A large token does not make its neighbours coarse."""
    x = torch.randn(2, 3, 4, 8, dtype=torch.float64)
    x[:, 0, 0] *= 1e6
    assert bool(((decode(*encode(x), x.dtype) - x).abs() <= half_a_step(x)).all())


def test_zeros_stay_zeros_and_nan_is_not_hidden():
    x = torch.zeros(1, 1, 3, 2)
    x[0, 0, 1], x[0, 0, 2, 0] = torch.nan, torch.inf
    back = decode(*encode(x), x.dtype)[0, 0]
    assert torch.equal(back[0], torch.zeros(2))
    assert back[1].isnan().all()
    assert not back[2].isfinite().any()


@pytest.mark.parametrize("cache", [KVCache(bits=8), FixedCache(20, bits=8), RingCache(3, bits=8)])
@torch.no_grad()
def test_it_does_not_matter_how_a_sequence_is_cut(cache):
    """To rounding (1e-12): a token's code depends on that token alone."""
    layer, x = layer_with("rotary, halves", mask=SlidingWindow(3)), words(2, 9, 8)
    at_once = stepped(layer, x, [9], cache.copy())
    for chunks in ([1] * 9, [4, 5], [2, 6, 1]):
        cut = stepped(layer, x, chunks, cache.copy())
        torch.testing.assert_close(cut, at_once, rtol=0.0, atol=1e-12)


@torch.no_grad()
def test_the_output_is_off_by_what_the_codes_explain():
    """A score is off by s = max|q|_1 e_k / sqrt(d), so a weight by a factor of exp(2 s) at most.

    The weights of a query are off by expm1(2 s) together, and its output by expm1(2 s) max|v| + e_v. The
    projections are the identity.
    """
    layer = layer_with("none", 4, 1, mask=Causal(), bias=False)
    for projection in (layer.query, layer.key, layer.value, layer.output):
        torch.nn.init.eye_(projection.weight)
    x = words(2, 12, 4)
    step = half_a_step(x).max()
    s = x.abs().sum(-1).max() * step / 4**0.5
    bound = torch.expm1(2 * s) * x.abs().max() + step
    off = (stepped(layer, x, [1] * 12, KVCache(bits=8)) - layer(x)).abs().max()
    assert 0 < off <= bound
    assert bound < 0.3 < layer(x).abs().max()  # so the bound says something


@torch.no_grad()
def test_it_takes_about_half_the_memory_of_half_precision():
    k = torch.randn(2, 4, 30, 64, dtype=torch.bfloat16)
    plain, small = FixedCache(64), FixedCache(64, bits=8)
    for cache in (plain, small):
        cache.append(k, k)
    per_token = 2 * 2 * 4 * (64 + 4) + 8  # codes and a float32 scale, and one position for both rows
    assert small.nbytes == 64 * per_token
    assert small.nbytes < 0.54 * plain.nbytes
