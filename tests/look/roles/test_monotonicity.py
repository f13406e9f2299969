"""Monotonicity on matrices made by hand, whose answers are worked out by hand, direction included."""

import math
from itertools import pairwise

import pytest
import torch

from headwise.core import AttentionMap, Causal
from headwise.look.roles.monotonicity import average_ranks, centres, monotonicity
from tests.core.test_memory import LargestTensor

# float64 sums of at most 40 numbers of size 1
EXACT = {"rtol": 0.0, "atol": 1e-12}


def map_of(*heads):
    """The map whose rows are these probabilities: scores are their logarithms."""
    p = torch.tensor(heads, dtype=torch.float64)
    bias = p.log().clamp(min=-1e4)[None]
    q, k = (torch.zeros(1, len(heads), p.shape[axis], 2, dtype=torch.float64) for axis in (1, 2))
    return AttentionMap(q, k, bias=bias)


def spearman_by_loops(centre):
    """Spearman's correlation with 0, 1, 2, ... by its definition, one pair of numbers after the other."""
    n = len(centre)
    ranks = []
    for value in centre:
        smaller = sum(other < value for other in centre)
        equal = sum(other == value for other in centre)
        ranks.append(smaller + (equal - 1) / 2)
    mean = (n - 1) / 2
    above = sum((rank - mean) * (i - mean) for i, rank in enumerate(ranks))
    sizes = sum((rank - mean) ** 2 for rank in ranks) * sum((i - mean) ** 2 for i in range(n))
    return above / math.sqrt(sizes) if sizes else 0.0


DIAGONAL = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
REVERSED = DIAGONAL[::-1]
UNIFORM = [[0.25] * 4] * 4
STEPS = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]


def test_the_centre_is_the_mean_place():
    found = centres(map_of(DIAGONAL, REVERSED, UNIFORM, STEPS))[0]
    expected = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1.5] * 4, [0, 0.5, 1, 1]])
    torch.testing.assert_close(found, expected.double(), **EXACT)


def test_a_diagonal_moves_on_a_reversed_one_goes_back_and_an_even_one_stays():
    found = monotonicity(centres(map_of(DIAGONAL, REVERSED, UNIFORM, STEPS))[0])
    # STEPS: ranks 0, 1, 2.5, 2.5 about 1.5: 4.5 / sqrt(4.5 * 5)
    expected = torch.tensor([1.0, -1.0, 0.0, math.sqrt(0.9)], dtype=torch.float64)
    torch.testing.assert_close(found.correlation, expected, **EXACT)
    torch.testing.assert_close(found.rising, torch.tensor([1.0, 0.0, 1.0, 1.0]).double(), **EXACT)
    assert found.rows.tolist() == [4] * 4


def test_masked_keys_and_queries_do_not_count():
    p = map_of([[0.5, 0.5, 0, 0], [0.5, 0.25, 0, 0.25], [1, 0, 0, 0], [0.5, 0, 0.25, 0.25]])
    keys = torch.tensor([[False, True, True, True]])
    queries = torch.tensor([[True, True, True, False]])
    found = centres(p, keys=keys)[0, 0]
    assert found.isnan().tolist() == [False, False, True, False]  # all on the key that does not count
    torch.testing.assert_close(found[[0, 1, 3]], torch.tensor([1.0, 2.0, 2.5]).double(), **EXACT)
    assert centres(p, keys=keys, queries=queries)[0, 0].isnan().tolist() == [False, False, True, True]
    over_the_gap = monotonicity(centres(p, keys=keys)[0])
    torch.testing.assert_close(over_the_gap.correlation, torch.ones(1).double(), **EXACT)
    assert over_the_gap.rising.tolist() == [1.0]
    assert over_the_gap.rows.tolist() == [3]


def test_each_row_of_a_batch_has_its_own_masks():
    q = torch.zeros(2, 1, 3, 2)
    keys = torch.tensor([[True, True, False, False], [False, True, True, True]])
    queries = torch.tensor([[True, True, True], [False, True, True]])
    found = centres(AttentionMap(q, torch.zeros(2, 1, 4, 2)), queries=queries, keys=keys)
    assert found[0, 0].tolist() == [0.5] * 3
    assert found[1, 0, 1:].tolist() == [2.0] * 2
    assert found[1, 0, 0].isnan()


@pytest.mark.parametrize("length", [3, 447, 1500])
@pytest.mark.parametrize("kept", [1.0, 0.7])
def test_rounding_gives_even_attention_no_order(length, kept):
    q, k = torch.randn(1, 2, 40, 64), torch.randn(1, 2, 1, 64).expand(-1, -1, length, -1)
    found = centres(
        AttentionMap(q, k), keys=(torch.rand(1, length) < kept).index_fill(1, torch.tensor([0]), True)
    )
    assert monotonicity(found[0], draws=1).correlation.tolist() == [0.0, 0.0]


def test_rounding_gives_rows_of_one_centre_no_order():
    """1/2 on keys 0 and 2, 2/3 on 0 and 1/3 on 3, and so on: the centre is 1, in float32 only nearly."""
    rows = [
        [1 - 1 / far if key == 0 else float(key == far) / far for key in range(12)] for far in range(2, 12)
    ]
    p = map_of(rows)
    found = centres(AttentionMap(p.q.float(), p.k.float(), bias=p.how.bias.float()))
    assert found.unique().tolist() == [1.0]
    assert monotonicity(found[0], draws=1).correlation.tolist() == [0.0]


def test_causal_attention_that_is_even_moves_on_by_its_mask():
    q = torch.zeros(1, 1, 5, 2)
    assert centres(AttentionMap(q, q, mask=Causal()))[0, 0].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_correlation_against_loops_with_ties_and_gaps():
    found = torch.randint(0, 9, (20, 12)).double().masked_fill(torch.rand(20, 12) < 0.2, torch.nan)
    r = monotonicity(found, draws=1)
    for head, row in enumerate(found):
        seen = row[~row.isnan()].tolist()
        steps = [after >= before for before, after in pairwise(seen)]
        assert r.correlation[head].item() == pytest.approx(spearman_by_loops(seen), abs=1e-12)
        assert r.rising[head].item() == pytest.approx(sum(steps) / len(steps), abs=1e-12)
        assert r.rows[head].item() == len(seen)


def test_ranks_of_equal_numbers_are_their_mean():
    assert average_ranks(torch.tensor([[2.0, 7.0, 2.0, 2.0, 1.0]])).tolist() == [[2.0, 4.0, 2.0, 2.0, 0.0]]


def test_p_of_three_rows_by_counting():
    """Of 4 ways to take 2 steps one gives 1, one -1 and two 0, so the better of both heads is 1 in a half."""
    r = monotonicity(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]), draws=1500)
    # 4 standard errors of a share of 1,500 draws, and the one that is added
    four_errors = 4 * math.sqrt(1 / 4 / 1500) + 1 / 1500
    assert r.correlation_p[0].item() == pytest.approx(1 / 2, abs=four_errors)
    assert r.correlation_p[1].item() == 1.0
    alone = monotonicity(torch.tensor([[0.0, 1.0, 2.0]]), draws=1500)
    assert alone.correlation_p.item() == pytest.approx(1 / 4, abs=four_errors)
    assert alone.rising_p.item() == pytest.approx(1 / 4, abs=four_errors)


def test_p_over_a_gap_by_counting_all_walks():
    """Steps of 3, -1 and 1, the second over a gap, each up or down: counted here one by one."""
    walks = [(0, a, a + b, a + b + c) for a in (3, -3) for b in (1, -1) for c in (1, -1)]
    least = spearman_by_loops([0, 3, 2, 3])
    share = sum(spearman_by_loops(walk) >= least - 1e-9 for walk in walks) / 8
    assert 0 < share < 1
    found = monotonicity(torch.tensor([[0.0, 3.0, torch.nan, 2.0, 3.0]]), draws=1500)
    four_errors = 4 * math.sqrt(share * (1 - share) / 1500) + 1 / 1500
    assert found.correlation_p.item() == pytest.approx(share, abs=four_errors)


CHANCE = {"walks": lambda: torch.randn(24, 24).cumsum(1), "independent": lambda: torch.randn(24, 24)}


@pytest.mark.parametrize("centres_of", CHANCE)
def test_chance_is_not_found_whether_centres_walk_or_not(centres_of):
    """Of 40 runs 5 % are 2; more than 5 have probability 0.014. Queries in random order find every walk."""
    hits = 0
    for seed in range(40):
        torch.manual_seed(seed)
        figures = monotonicity(CHANCE[centres_of](), draws=99, seed=seed)
        hits += int((figures.correlation_p <= 0.05).any() or (figures.rising_p <= 0.025).any())
    assert hits <= 5


def test_a_walk_of_one_head_is_found_in_five_of_a_hundred():
    """Of 120 runs 5 % are 6, with a deviation of 2.4; queries in random order find 42."""
    hits = 0
    for seed in range(120):
        torch.manual_seed(seed)
        figures = monotonicity(torch.randn(1, 24).cumsum(1), draws=39, seed=seed)
        hits += int(figures.correlation_p.item() <= 0.05)
    assert 1 <= hits <= 13


@pytest.mark.parametrize("noise", ["in the places", "in the steps"])
def test_a_planted_head_is_found_among_walks(noise):
    """It moves on by 1 at each query, where others walk by steps of deviation 1."""
    for seed in range(20):
        torch.manual_seed(seed)
        found = torch.randn(24, 25).cumsum(1)
        found[7] = torch.arange(25) + (
            0.3 * torch.randn(25) if noise == "in the places" else 0.5 * torch.randn(25).cumsum(0)
        )
        heads = (monotonicity(found, draws=100, seed=seed).correlation_p <= 0.05).nonzero().flatten().tolist()
        assert 7 in heads
        assert len(heads) <= 3


def test_standard_error_by_the_formula():
    r = monotonicity(centres(map_of(STEPS))[0], draws=1)
    # n = 4 and r^2 = 0.9: (1 - 0.9) * sqrt(1.45 / 1)
    assert r.correlation_error.item() == pytest.approx(0.1 * math.sqrt(1.45), abs=1e-12)
    assert r.rising_error.item() == 0.0


def test_a_head_without_rows_has_none():
    r = monotonicity(torch.full((1, 5), torch.nan), draws=3)
    assert (r.correlation.item(), r.rising.item(), r.rows.item()) == (0.0, 0.0, 0)
    assert r.correlation_error.isnan().all()
    assert r.correlation_p.item() == 1.0


def test_nothing_of_size_query_times_key_is_kept():
    q, k = torch.randn(1, 1, 6000, 4), torch.randn(1, 1, 6000, 4)
    with LargestTensor() as largest:
        centres(AttentionMap(q, k))
    assert largest.numbers <= 2**22  # the matrix has 2**25
