"""The p-value of the best head: uniform where there is nothing, exact where all signs can be tried."""

from itertools import product
from math import comb

import numpy as np
import pytest

from headwise.look.roles.signs import chance_of_best


def every_sign(excess):
    """p of each head over all 2^texts signs, the ones found among them."""
    texts, heads = len(excess), len(excess[0])
    length = [sum(row[head] ** 2 for row in excess) ** 0.5 for head in range(heads)]
    own = [sum(row[head] for row in excess) / length[head] for head in range(heads)]
    largest = [
        max(sum(s * row[h] for s, row in zip(signs, excess, strict=True)) / length[h] for h in range(heads))
        for signs in product([-1, 1], repeat=texts)
    ]
    return [sum(each >= mine - 1e-9 for each in largest) / 2**texts for mine in own]


def test_draws_come_near_to_all_signs_of_six_texts():
    """A share p of 9,999 draws is off by sqrt(p (1 - p) / 9999): five of those, and the one added."""
    excess = np.random.default_rng(0).normal(0.4, 1.0, size=(6, 4))
    want = every_sign(excess.tolist())
    assert len(set(want)) == 4  # four heads of which none is sure
    for found, p in zip(chance_of_best(excess), want, strict=True):
        assert found == pytest.approx(p, abs=5 * (p * (1 - p) / 9_999) ** 0.5 + 1e-4)


def test_a_head_that_is_above_in_each_of_six_texts_alike_has_one_sign_of_64():
    excess = np.ones((6, 1))
    p = 1 / 64
    assert chance_of_best(excess)[0] == pytest.approx(p, abs=5 * (p * (1 - p) / 9_999) ** 0.5 + 1e-4)


def rejected(level, heads, simulations=400, texts=24):
    """How often the best of some heads is below a level, of heads that know nothing and share half of it."""
    random, hits = np.random.default_rng(0), 0
    for number in range(simulations):
        shared, own = random.normal(size=(texts, 1)), random.normal(size=(texts, heads))
        hits += bool(chance_of_best(shared + own, draws=199, seed=number).min() <= level + 1e-9)
    return hits


@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("level", [0.05, 0.25, 0.5])
def test_the_smallest_p_of_all_heads_is_uniform_where_there_is_nothing(heads, level):
    """With 199 draws p is one of 0.005, 0.01 and so on, each as likely: below 5 % in 5 % of the simulations.

    Binomial: within four standard errors of 400 simulations.
    """
    error = (level * (1 - level) / 400) ** 0.5
    assert rejected(level, heads) / 400 == pytest.approx(level, abs=4 * error)


def test_one_p_by_head_would_be_below_five_percent_far_more_often():
    """That eight heads have the best of them as their null matters: alone, 1 - 0.95^8 would be a third."""
    random = np.random.default_rng(0)
    alone = [
        min(chance_of_best(random.normal(size=(24, 1)), draws=199, seed=head)[0] for head in range(8))
        for _ in range(100)
    ]
    assert np.mean(np.array(alone) <= 0.05) > 0.15


def test_the_smallest_p_is_one_in_all_draws_and_one():
    assert chance_of_best(np.ones((40, 2)), draws=99)[0] == pytest.approx(1 / 100)


def test_heads_that_know_nothing_at_all_get_one():
    """No excess in any text, as where chance and score agree row by row."""
    assert chance_of_best(np.zeros((20, 3))).tolist() == [1.0, 1.0, 1.0]


def test_worse_than_chance_is_never_unlikely():
    assert chance_of_best(-np.ones((20, 1)))[0] == 1.0


def test_p_does_not_depend_on_the_size_of_what_is_counted():
    excess = np.random.default_rng(1).normal(0.3, 1.0, size=(20, 3))
    assert np.array_equal(chance_of_best(excess), chance_of_best(excess * [1.0, 10.0, 0.1]))


def test_shares_that_tie_count_as_reached():
    """Two texts of four, alike, against two: of 16 signs those with two or more plus reach their sum of 0."""
    excess = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    p = sum(comb(4, above) for above in (2, 3, 4)) / 16
    assert chance_of_best(excess)[0] == pytest.approx(p, abs=5 * (p * (1 - p) / 9_999) ** 0.5 + 1e-4)
