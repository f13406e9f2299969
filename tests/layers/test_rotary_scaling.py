"""Each scaling against its formula in plain floats, and the numbers published for it.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each:

    L1          the ramp of YaRN upside down, other bounds, no default factor  test_yarn, test_bounds_of_yarn
    10          Llama-3 frequencies computed, plain ones returned           test_every_scaling_turns
    11          Llama-3 with the running length for 8192                    test_llama3_numbers
    16          the two mscales of YaRN, twice or never                     test_mscale_of_yarn
    34          frequencies lost with a buffer that was not saved           test_nothing_to_save
    6, L6, L13  angles in half precision                                    test_the_error_does_not_grow
    18, 19      partial rotary ignored, or by the width of the head         test_proportional_is_not_partial
"""

import math

import pytest
import torch

from headwise.layers import (
    DynamicNTK,
    Llama3,
    LongRoPE,
    MultiHeadAttention,
    NTKAware,
    PositionInterpolation,
    Proportional,
    Rotary,
    YaRN,
)
from tests.layers.encodings import words
from tests.layers.oracles import rotary as oracle

# Powers, a logarithm and a few products in float64 on both sides: some tens of roundings of 2^-53.
EXACT = {"rtol": 1e-13, "atol": 0.0}
SIZES = [(2, 1e4), (4, 100.0), (64, 1e4), (64, 100.0), (128, 5e5)]
LISTS = [1.0 + 0.1 * i for i in range(64)], [2.0 + i for i in range(64)]

# name: (dims, base) -> the scaling, and the frequencies by the plain formula
CASES = {
    "interpolation": lambda d, b: (PositionInterpolation(4.0), oracle.interpolated(d, b, 4.0)),
    "NTK": lambda d, b: (NTKAware(4.0), oracle.frequencies(d, oracle.ntk_base(d, b, 4.0))),
    "dynamic NTK": lambda d, b: (
        DynamicNTK(2.0, 2048),
        oracle.frequencies(d, oracle.dynamic_base(d, b, 2.0, 2048, 5000)),
    ),
    "YaRN": lambda d, b: (YaRN(4.0, 4096), oracle.yarn(d, b, 4.0, 4096)),
    "YaRN, fractions": lambda d, b: (
        YaRN(8.0, 4096, truncate=False),
        oracle.yarn(d, b, 8.0, 4096, truncate=False),
    ),
    "YaRN, other turns": lambda d, b: (
        YaRN(8.0, 32768, beta_fast=16.0, beta_slow=2.0),
        oracle.yarn(d, b, 8.0, 32768, fast=16.0, slow=2.0),
    ),
    "LongRoPE": lambda d, b: (
        LongRoPE(LISTS[0][: d // 2], LISTS[1][: d // 2], 4096, 32.0),
        oracle.longrope(d, b, LISTS[0][: d // 2], LISTS[1][: d // 2], 4096, 5000),
    ),
    "Llama 3": lambda d, b: (Llama3(8.0, 8192), oracle.llama3(d, b, 8.0, 8192)),
    "proportional": lambda d, b: (Proportional(0.3, 2.0), oracle.proportional(d, b, 0.3, 2.0)),
}
every_case = pytest.mark.parametrize("name", CASES)


def scaled(scaling, dims=128, base=10000.0, length=5000):
    return scaling(Rotary(base).frequencies(dims // 2), length)


def rotary(scaling, **how):
    """With a length where the scaling needs one."""
    return Rotary(scaling=scaling, length=5000 if scaling.needs_length else None, **how)


@every_case
@pytest.mark.parametrize(("dims", "base"), SIZES)
def test_frequencies(name, dims, base):
    scaling, expected = CASES[name](dims, base)
    exact = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(scaled(scaling, dims, base), exact, **EXACT)


@every_case
@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_every_scaling_turns(name, pairs):
    """The scaled frequencies and the size arrive in the turned vectors, in both layouts, near and far."""
    scaling, thetas = CASES[name](64, 1e4)
    layout = oracle.halves(64) if pairs == "halves" else oracle.neighbours(64)
    x, positions = words(1, 1, 4, 64), torch.tensor([0, 3, 4095, 100_003])
    turned = rotary(scaling, pairs=pairs).turn(x, positions)
    for at, row, result in zip(positions.tolist(), x[0, 0].tolist(), turned[0, 0], strict=True):
        expected = oracle.turned(row, oracle.at(at, thetas), layout, scaling.attention_factor)
        exact = torch.tensor(expected, dtype=torch.float64)
        # the frequency is right to 1e-13, so an angle to the position times that
        torch.testing.assert_close(result, exact, rtol=0.0, atol=1e-11 + at * 1e-13)


@pytest.mark.parametrize(("factor", "base"), [(2.0, 20221.26), (4.0, 40889.94), (8.0, 82684.62)])
def test_ntk_is_a_larger_base(factor, base):
    expected = Rotary(oracle.ntk_base(128, 1e4, factor)).frequencies(64)
    torch.testing.assert_close(scaled(NTKAware(factor)), expected, **EXACT)
    assert oracle.ntk_base(128, 1e4, factor) == pytest.approx(base, abs=0.005)


@pytest.mark.parametrize(
    ("dims", "base", "original", "truncate", "bounds"),
    [
        (64, 1e4, 4096, True, (10, 23)),
        (128, 1e4, 4096, True, (20, 46)),
        (128, 1e6, 32768, True, (23, 40)),
        (64, 100.0, 4096, True, (20, 46)),
        (64, 150000.0, 4096, False, (8.0928, 17.3980)),
    ],
)
def test_bounds_of_yarn(dims, base, original, truncate, bounds):
    yarn = YaRN(8.0, original, truncate=truncate)
    assert yarn.bounds(Rotary(base).frequencies(dims // 2)) == pytest.approx(bounds, abs=5e-5)


def test_yarn():
    """Fast pairs stay, slow ones are divided by the factor: 0 to 10 and 23 on, at 64, 1e4, 4096."""
    ratio = scaled(YaRN(40.0, 4096), 64) / Rotary().frequencies(32)
    torch.testing.assert_close(ratio[:11], torch.ones(11).double(), **EXACT)
    torch.testing.assert_close(ratio[23:], torch.full((9,), 1 / 40).double(), rtol=1e-7, atol=0.0)
    assert (ratio[10:24].diff() < 0).all()


@pytest.mark.parametrize("original", [2, 7, 200, 10**7])
@pytest.mark.parametrize("base", [2.0, 100.0])
def test_yarn_where_its_bounds_meet_or_cross(original, base):
    """Pairs that turn 32 times or more stay, those that turn once or less are slowed, at any length."""
    plain = Rotary(base).frequencies(32)
    ratio = scaled(YaRN(4.0, original), 64, base) / plain
    turns = original * plain / (2 * math.pi)
    assert ratio.isfinite().all()
    kept = turns > 32 * base ** (2 / 64)
    assert (ratio[kept] == 1).all()
    slow = (turns < 1 / base ** (2 / 64)) & (torch.arange(32) > 0)
    torch.testing.assert_close(ratio[slow], torch.full_like(ratio[slow], 0.25), **EXACT)


@pytest.mark.parametrize(
    ("factor", "size"), [(1, 1.0), (4, 1.13863), (16, 1.27726), (32, 1.34657), (40, 1.36889)]
)
def test_size_of_yarn(factor, size):
    assert YaRN(factor, 4096).attention_factor == pytest.approx(size, abs=5e-6)


@pytest.mark.parametrize(
    ("mscales", "size", "softmax"),
    [
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0, 1.87385),
        ({"mscale": 1.0}, 1.36889, 1.0),
        ({}, 1.36889, 1.0),
        ({"mscale": 1.0, "mscale_all_dim": 0.5}, 1.36889 / 1.184444, 1.402907),
        ({"mscale": 1.0, "mscale_all_dim": 0.5, "given_attention_factor": 3.0}, 3.0, 1.402907),
    ],
)
def test_mscale_of_yarn(mscales, size, softmax):
    yarn = YaRN(40.0, 4096, **mscales)
    assert yarn.attention_factor == pytest.approx(size, abs=1e-5)
    assert yarn.softmax_factor == pytest.approx(softmax, abs=1e-5)


@pytest.mark.parametrize(
    ("factor", "original", "size"), [(1, 4096, 1.0), (32, 4096, 1.19024), (16, 8192, 1.14354)]
)
def test_size_of_longrope(factor, original, size):
    scaling = LongRoPE([1.0], [1.0], original, factor)
    assert scaling.attention_factor == pytest.approx(size, abs=5e-6)
    assert LongRoPE([1.0], [1.0], original, factor, 1.5).attention_factor == 1.5


def test_llama3_numbers():
    ratio = scaled(Llama3(8.0, 8192), 128, 5e5) / Rotary(5e5).frequencies(64)
    blended = torch.tensor([0.82817, 0.64374, 0.49351, 0.37112, 0.27143, 0.19021]).double()
    assert torch.equal(ratio[:29], torch.ones(29).double())
    torch.testing.assert_close(ratio[29:35], blended, rtol=0.0, atol=5e-6)
    torch.testing.assert_close(ratio[35:], torch.full((29,), 1 / 8).double(), **EXACT)


def test_proportional_is_not_partial():
    """The same share, and yet other frequencies and other partners."""
    x, at = words(1, 1, 1, 64), torch.tensor([7])
    of_the_head = Rotary(scaling=Proportional(0.25)).turn(x, at)
    partial = Rotary(dims=16).turn(x, at)
    moved = (of_the_head != x)[0, 0, 0].nonzero().flatten().tolist()
    assert moved == [*range(8), *range(32, 40)]
    assert (partial != x)[0, 0, 0].nonzero().flatten().tolist() == list(range(16))


@every_case
def test_nothing_to_save(name):
    layer = MultiHeadAttention(8, 1, position=rotary(CASES[name](8, 1e4)[0]))
    assert set(layer.state_dict()) == {key for key, _ in layer.named_parameters()}
    assert not list(layer.position.parameters())
    assert not list(layer.buffers())
    twin, x = MultiHeadAttention(8, 1, position=rotary(CASES[name](8, 1e4)[0])), torch.randn(1, 5, 8)
    twin.load_state_dict(layer.state_dict())
    cast = twin.to(torch.bfloat16).to(torch.float32)  # the angles, unlike the weights, come back
    torch.testing.assert_close(
        cast.position.turn(x[:, None], torch.arange(5)), layer.position.turn(x[:, None], torch.arange(5))
    )


@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [255, 2047, 100_001])
def test_the_error_does_not_grow(name, dtype, first):
    """As for plain rotary, 5 u_32 + u_dtype of the pair's length, times the size, and u_32 for the size."""
    scaling, thetas = CASES[name](64, 1e4)
    x, positions = torch.randn(1, 1, 5, 64).to(dtype), torch.arange(first, first + 5)
    turned = rotary(scaling).turn(x, positions)
    assert turned.dtype == dtype
    for at, row, result in zip(
        positions.tolist(), x[0, 0].double().tolist(), turned[0, 0].double(), strict=True
    ):
        size = scaling.attention_factor
        expected = torch.tensor(
            oracle.turned(row, oracle.at(at, thetas), oracle.halves(64), size), dtype=torch.float64
        )
        lengths = torch.tensor([math.hypot(row[i], row[i + 32]) for i in range(32)]).double().repeat(2)
        bound = (6 * 2**-24 + torch.finfo(dtype).eps / 2) * size * lengths + 2 * torch.finfo(dtype).tiny
        assert ((result - expected).abs() <= bound).all()


def test_a_scaling_says_what_it_is():
    assert (
        repr(Rotary(scaling=NTKAware(2.0)))
        == "Rotary(base=10000, pairs='halves', scaling=NTKAware(factor=2.0))"
    )
    text = repr(Rotary(scaling=DynamicNTK(2.0, 4), length="positions"))
    assert text.endswith("scaling=DynamicNTK(factor=2.0, original_length=4), length='positions')")
    assert NTKAware(2.0) == NTKAware(2.0) != NTKAware(4.0)
