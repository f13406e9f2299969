"""The slow formulas give the published numbers."""

import math

import pytest
import torch

from tests.faults import formulas as right


def close(a, b, digits=5):
    torch.testing.assert_close(
        torch.as_tensor(a, dtype=torch.float64),
        torch.as_tensor(b, dtype=torch.float64),
        rtol=0,
        atol=0.51 * 10**-digits,
    )


def test_bases():
    assert [round(right.ntk(128, s), 2) for s in (2, 4, 8)] == [20221.26, 40889.94, 82684.62]
    found = [right.dynamic_ntk(128, n, 2048, 2) for n in (1024, 2048, 3000, 4096)]
    assert [round(base, 2) for base in found] == [10000, 10000, 19499.28, 30527.74]


def test_llama3_keeps_blends_and_divides():
    ratio = right.llama3(128, 8, 8192) / right.frequencies(128, 500000.0)
    assert ratio[:29].eq(1).all()
    close(ratio[29:35], [0.82817, 0.64374, 0.49351, 0.37112, 0.27143, 0.19021])
    close(ratio[35:], [0.125] * 29)


def test_yarn_keeps_the_first_and_divides_the_last():
    ratio = right.yarn(64, 40, 4096) / right.frequencies(64)
    close(ratio[:11], [1.0] * 11)
    close(ratio[23:], [1 / 40] * 9)
    close(ratio[11], 1 - 1 / 13 + 1 / 13 / 40)
    close([right.yarn_gain(s) for s in (4, 16, 32, 40)], [1.13863, 1.27726, 1.34657, 1.36889])


def test_sinusoidal():
    close(right.sinusoidal(2, 4), [[0, 1, 0, 1], [0.84147, 0.54030, 0.0099998, 0.99995]])
    assert right.sinusoidal(3, 5).shape == (3, 5)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (3, [2**-4, 2**-8, 2**-2]),
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
        (12, [*(2**-h for h in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_alibi_slopes(heads, slopes):
    close(right.alibi_slopes(heads), slopes, 9)
    assert right.alibi(heads, 1, 4)[:, 0, 0].tolist() == (-3 * right.alibi_slopes(heads)).tolist()


def test_buckets_are_logarithmic_beyond_their_exact_half():
    def formula(distance, exact):
        return exact + int(math.log(distance / exact) / math.log(128 / exact) * exact)

    for distance in range(16, 128):
        assert right.t5_bucket(torch.tensor(-distance), causal=True) == min(formula(distance, 16), 31)
    for distance in range(8, 128):
        assert right.t5_bucket(torch.tensor(-distance), causal=False) == min(formula(distance, 8), 15)
    assert right.t5_bucket(torch.tensor([3, -3]), causal=False).tolist() == [19, 3]


def test_cope_counts_gates():
    scores = torch.full((1, 3, 3), 50.0)  # every gate is open
    table = torch.arange(8.0).expand(1, 3, 8)
    found = right.cope(scores, table, right.causal(3, 3))
    assert found[0].tril().tolist() == [[1, 0, 0], [2, 1, 0], [3, 2, 1]]
