"""A formula in float64 beside the code: equal within rounding, and the first number that is not is named."""

import pytest
import torch

from headwise import reference
from headwise.check import Vectors, oracle


def waves(length, dim=6):
    return torch.as_tensor(reference.positional_encoding(length, dim)).float()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_code_is_held_to_its_own_precision(dtype):
    def attend(x):
        return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x

    assert oracle(attend, attend, Vectors(8, dtype)).passed
    assert oracle(lambda x: attend(x) * 1.2, attend, Vectors(8, dtype)).verdict == "fails"


def test_a_formula_in_numpy_and_sizes_of_any_kind():
    assert oracle(waves, lambda n: reference.positional_encoding(n, 6), lambda n: (n,)).passed


def test_the_smallest_size_that_fails_and_the_number_are_named():
    report = oracle(lambda n: waves(n) * (n < 5), waves, lambda n: (n,))
    assert report.failing == "at length 5, the output at [0, 1] is 0 where the formula gives 1"


def test_whole_numbers_must_be_equal():
    assert oracle(torch.arange, lambda n: torch.arange(n), lambda n: (n,)).passed
    assert oracle(lambda n: torch.arange(n) + 1, torch.arange, lambda n: (n,)).tolerance == 0.0


def test_raising_or_another_shape_is_a_failure_where_the_formula_answers():
    def odd_refused(n):
        return waves(n)[: n // 2 * 2]

    failing = oracle(odd_refused, waves, lambda n: (n,)).failing
    assert failing == "at length 1, it gives float32 of shape [0, 6] where [1, 6] was asked for"
    assert "raises ZeroDivisionError" in oracle(lambda n: 1 / 0, waves, lambda n: (n,)).failing
    assert "is nan where" in oracle(lambda n: waves(n) * torch.nan, waves, lambda n: (n,)).failing


def test_equal_infinities_are_equal():
    mask = torch.zeros(3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    assert oracle(lambda n: mask, lambda n: mask.double(), lambda n: (n,)).passed
    assert not oracle(lambda n: mask.clamp(min=-1e9), lambda n: mask, lambda n: (n,)).passed
