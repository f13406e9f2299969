"""The bound on scores by known chance: never below the exact tail, and near to it where that can be."""

from itertools import product
from math import comb

import numpy as np
import pytest

from headwise.look.roles.chernoff import chernoff_bound


def tail(count, chance, least):
    """P(at least so many of ``count`` coins)."""
    return sum(
        comb(count, hits) * chance**hits * (1 - chance) ** (count - hits) for hits in range(least, count + 1)
    )


def bound_of(score, control, counts):
    """Of one head."""
    columns = (np.array(each, dtype=float)[:, None] for each in (score, control))
    return float(chernoff_bound(*columns, np.array(counts, dtype=float))[0])


@pytest.mark.parametrize("count", [1, 20, 300])
@pytest.mark.parametrize("chance", [0.01, 0.2, 0.5, 0.8, 0.99])
def test_it_is_never_below_the_exact_tail_of_coins(count, chance):
    """And below it times sqrt(8 hits misses / count), e.g. Ash 1990, lemma 4.7.2, where a hit is missed."""
    for hits in sorted({0, count // 4, count // 2, (9 * count) // 10, count - 1, count}):
        found = bound_of([1] * hits + [0] * (count - hits), [chance] * count, [1] * count)
        exact = tail(count, chance, hits)
        assert found >= exact * (1 - 1e-9), (hits, found, exact)
        if chance * count < hits < count:
            # the lambda is off by 2^-12 of its range of logs: far less than 1 % of the exponent
            assert found <= (exact * (8 * hits * (count - hits) / count) ** 0.5) ** 0.99


def test_right_every_time_is_the_product_of_chances():
    assert bound_of([1] * 20, [0.8] * 20, [1] * 20) == pytest.approx(0.8**20, rel=1e-6)
    assert bound_of([3, 1], [0.6, 0.5], [3, 1]) == pytest.approx(0.2 * 0.5, rel=1e-6)


def test_rows_of_a_unit_may_hang_together():
    """Three units of 5, 1 and 2 rows, each all right or all wrong: every outcome, counted."""
    counts, chance = [5, 1, 2], [0.3, 0.6, 0.1]
    outcomes = list(product([0, 1], repeat=3))
    weights = [
        np.prod([c if hit else 1 - c for c, hit in zip(chance, each, strict=True)]) for each in outcomes
    ]
    scores = [sum(n * hit for n, hit in zip(counts, each, strict=True)) for each in outcomes]
    control = [n * c for n, c in zip(counts, chance, strict=True)]
    for each, reached in zip(outcomes, scores, strict=True):
        exact = sum(w for w, score in zip(weights, scores, strict=True) if score >= reached)
        found = bound_of([n * hit for n, hit in zip(counts, each, strict=True)], control, counts)
        assert found >= exact * (1 - 1e-9)


def test_no_more_than_chance_is_1():
    assert bound_of([0.5] * 9, [0.5] * 9, [1] * 9) == pytest.approx(1.0, abs=1e-4)
    assert bound_of([0.2] * 9, [0.5] * 9, [1] * 9) == 1.0
    assert bound_of([1.0] * 9, [1.0] * 9, [1] * 9) == pytest.approx(1.0)


def test_edges_are_finite():
    assert bound_of([1.0] * 9, [0.0] * 9, [1] * 9) == pytest.approx(0.0, abs=1e-100)
    assert bound_of([0.0] * 9, [0.0] * 9, [1] * 9) == 1.0
    assert bound_of([1 + 1e-7] * 9, [0.5] * 9, [1] * 9) == pytest.approx(0.5**9, rel=1e-6)
    assert bound_of([0, 900], [0, 90], [0, 1000]) == bound_of([900], [90], [1000])
    assert bound_of([0], [0], [0]) == 1.0


def test_it_does_not_depend_on_other_heads():
    random = np.random.default_rng(0)
    counts = random.integers(1, 30, 40).astype(float)
    control = random.uniform(0, 1, (40, 3)) * counts[:, None]
    score = np.minimum(counts[:, None], control * 1.3)
    alone = [chernoff_bound(score[:, [n]], control[:, [n]], counts)[0] for n in range(3)]
    assert chernoff_bound(score, control, counts).tolist() == pytest.approx(alone, rel=1e-12)
