"""Scalings that depend on the length: one for all calls, or that of each row of a call; never a memory.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each:

    L16, 8  dynamic NTK remembers a longer call  test_a_scaling_keeps_nothing
    7, 9    keys cached at another length        test_one_length_for_all_calls
    14      LongRoPE of unequal rows             test_the_length_of_each_row
    14, 15  LongRoPE at the trained length       test_longrope_switches_beyond
    13, 17  dynamic NTK at a short length        test_dynamic_ntk
"""

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.layers import DynamicNTK, LongRoPE, NTKAware, Rotary
from tests.layers.encodings import words
from tests.layers.oracles import rotary as oracle
from tests.layers.test_rotary_scaling import EXACT, LISTS, scaled


def test_one_length_for_all_calls():
    """With a number, keys turned early fit queries turned late, and the claim says so."""
    scaling = DynamicNTK(2.0, 4)
    fixed, of_each = Rotary(scaling=scaling, length=16), Rotary(scaling=scaling, length="positions")
    assert (fixed.cacheable, fixed.relative) == (True, True)
    assert (of_each.cacheable, of_each.relative) == (False, False)
    k, at = words(1, 1, 16, 8), torch.arange(16)
    for encoding, same in ((fixed, True), (of_each, False)):
        early = encoding.turn(k[:, :, :4], at[:4])
        assert torch.equal(early, encoding.turn(k, at)[:, :, :4]) == same
    torch.testing.assert_close(of_each.turn(k, at), fixed.turn(k, at), rtol=0.0, atol=1e-12)


def test_queries_and_keys_are_turned_at_one_length():
    encoding = Rotary(scaling=DynamicNTK(2.0, 4), length="positions")
    q, k = words(1, 1, 1, 8), words(1, 1, 20, 8)
    turned_q, turned_k = encoding.rotate(q, k, torch.tensor([3]), torch.arange(20))
    fixed = Rotary(scaling=DynamicNTK(2.0, 4), length=20)
    torch.testing.assert_close(turned_q, fixed.turn(q, torch.tensor([3])), rtol=0.0, atol=1e-12)
    torch.testing.assert_close(turned_k, fixed.turn(k, torch.arange(20)), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("scaling", [DynamicNTK(2.0, 4), LongRoPE([1.0] * 4, [1.0, 2.0, 3.0, 4.0], 4, 2.0)])
def test_the_length_of_each_row(scaling):
    """A short prompt beside a long one is the short prompt alone."""
    encoding = Rotary(scaling=scaling, length="positions")
    k, at = words(2, 1, 9, 8), torch.stack([torch.arange(9), (torch.arange(9) - 6).clamp(min=0)])
    together = encoding.turn(k, at)
    for row in range(2):
        alone = encoding.turn(k[row : row + 1], at[row])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0.0, atol=1e-12)
    short = Rotary(scaling=scaling, length=3)
    torch.testing.assert_close(together[1:], short.turn(k[1:], at[1]), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("scaling", [DynamicNTK(2.0, 2048), LongRoPE([1.0] * 4, [2.0] * 4, 2048, 2.0)])
def test_a_scaling_keeps_nothing(scaling):
    """Lengths as they come, long ones between short ones, each as for a fresh encoding."""
    encoding = Rotary(scaling=scaling, length="positions")
    for length in (4096, 3000, 2048, 1024, 2049, 4096, 4096, 1):
        k, at = words(1, 1, 1, 8), torch.tensor([length - 1])
        fresh = Rotary(scaling=scaling, length=length).turn(k, at)
        torch.testing.assert_close(encoding.turn(k, at), fresh, rtol=0.0, atol=1e-12)


def test_a_length_that_is_missing_or_in_vain():
    with pytest.raises(HeadwiseError, match="length must be a number of tokens or 'positions', got None"):
        Rotary(scaling=DynamicNTK(2.0, 4))
    with pytest.raises(HeadwiseError, match="length must be None, got 16"):
        Rotary(scaling=NTKAware(2.0), length=16)


@pytest.mark.parametrize(
    ("length", "base"), [(1, 1e4), (1024, 1e4), (2048, 1e4), (2049, None), (3000, 19499.28), (4096, 30527.74)]
)
def test_dynamic_ntk(length, base):
    by_formula = oracle.dynamic_base(128, 1e4, 2.0, 2048, length)
    assert base is None or by_formula == pytest.approx(base, abs=0.005)
    frequencies = scaled(DynamicNTK(2.0, 2048), length=length)
    torch.testing.assert_close(frequencies, Rotary(by_formula).frequencies(64), **EXACT)
    assert torch.equal(frequencies, Rotary().frequencies(64)) == (length <= 2048)


@pytest.mark.parametrize(("length", "divisors"), [(1, 0), (4095, 0), (4096, 0), (4097, 1), (131072, 1)])
def test_longrope_switches_beyond(length, divisors):
    scaling = LongRoPE(LISTS[0][:2], LISTS[1][:2], 4096, 32.0)
    expected = [theta / by for theta, by in zip([1.0, 0.01], LISTS[divisors], strict=False)]
    torch.testing.assert_close(
        scaled(scaling, 4, length=length), torch.tensor(expected, dtype=torch.float64), **EXACT
    )
