"""Sampled rows: exactly those rows, unbiased totals, and standard errors by which the seeds do scatter."""

import math
from itertools import combinations

import numpy as np
import torch

from headwise.look import record
from headwise.look.calls.call import AttentionCall
from headwise.look.recordings.reading import read_call
from headwise.look.recordings.sums import STATISTICS, chosen_rows, of_rows
from tests.look.models import Split, dense, fused
from tests.look.plainly import Text
from tests.look.recorded import check, recorded

LENGTH, SOME = 23, 7
SAMPLED = tuple(name for name in STATISTICS if name != "special")


def a_call(length=LENGTH):
    q, k = (torch.randn(2, 3, length, 4) * 2 for _ in range(2))
    return AttentionCall(q, k, k, q, scale=0.5, causal="upper left")


def test_the_statistics_of_those_rows():
    call, rows = a_call(), torch.tensor([0, 3, 4, 11, 22])
    sums = read_call(call, rows, None, itself=True)
    p = dense(call.q, call.k, 0.5, torch.ones(LENGTH, LENGTH).bool().tril())
    times = LENGTH / len(rows)
    for statistic in SAMPLED:
        of_all = np.concatenate([Text(one).rows(statistic) for one in p], axis=1)
        chosen = of_all[:, [row + LENGTH * text for text in range(2) for row in rows.tolist()]]
        number, has = STATISTICS.index(statistic), ~np.isnan(chosen)
        np.testing.assert_allclose(sums.total[number], times * np.nansum(chosen, axis=1), rtol=1e-5)
        np.testing.assert_allclose(sums.mean(statistic), np.nanmean(chosen, axis=1), rtol=1e-5)
        assert sums.read[number].tolist() == has.sum(1).tolist()
    received = times * p[:, :, rows].sum((0, 2))
    torch.testing.assert_close(sums.received, received, rtol=1e-5, atol=1e-6)
    could = times * 2 * (rows[:, None] >= torch.arange(LENGTH)).sum(0)
    torch.testing.assert_close(sums.could, could.double())
    score = (0.5 * call.q @ call.k.mT).masked_fill(~torch.ones(LENGTH, LENGTH).bool().tril(), -math.inf)
    largest = score[:, :, rows].amax((0, 2, 3)).double()
    torch.testing.assert_close(sums.largest_score, largest, rtol=1e-6, atol=0)


def test_over_all_samples_totals_and_variances_are_right_on_average():
    # every sample of 3 of 6 rows once: the mean of the estimates is the total, and the mean of the variances
    # is the variance of the estimates (Cochran 1977, theorems 2.1 and 2.4); float64 rounds at 1e-15
    values = torch.randn(1, 1, 6).double()
    counts = torch.ones(1, 1, 6, dtype=torch.bool)
    totals, variances = [], []
    for rows in combinations(range(6), 3):
        _, _, total, _, variance = of_rows(values[..., rows], counts[..., rows], 6)
        totals.append(total.item())
        variances.append(variance.item())
    assert math.isclose(np.mean(totals), values.sum().item(), abs_tol=1e-12)
    assert math.isclose(np.mean(variances), np.var(totals), rel_tol=1e-12)


def test_one_row_of_many_tells_no_error():
    counts = torch.ones(1, 1, 1, dtype=torch.bool)
    assert math.isnan(of_rows(torch.ones(1, 1, 1), counts, 4)[4].item())
    assert of_rows(torch.ones(1, 1, 1), counts, 1)[4].item() == 0.0


def test_every_row_is_drawn_equally_often():
    seeds = 2000
    drawn = torch.stack([chosen_rows(LENGTH, SOME, seed, b"text") for seed in range(seeds)])
    assert all(len(set(rows.tolist())) == SOME for rows in drawn[:50])
    counts = torch.bincount(drawn.flatten(), minlength=LENGTH).double()
    share = SOME / LENGTH
    # each count is binomial; five standard deviations are left by one of 23 rows in 76,000 such tests
    assert float((counts / seeds - share).abs().max()) < 5 * math.sqrt(share * (1 - share) / seeds)


def test_the_standard_error_is_how_far_the_seeds_scatter():
    # four texts of one length: their samples must not be the same, or the errors would add up
    model, x = Split(fused), torch.randn(4, LENGTH, 8) * 3
    exact = recorded(model, x).layers[""].sums
    seeds, runs = 100, []
    for seed in range(seeds):
        with torch.no_grad(), record(model, rows=SOME, seed=seed) as recording:
            model(x)
        runs.append(recording.layers[""].sums)
    for statistic in ("entropy", "confidence", "distance", "first"):
        found = torch.stack([run.mean(statistic) for run in runs])
        said = torch.stack([run.standard_error(statistic) for run in runs])
        scatter = found.std(0)
        # a standard deviation of 100 values is off by 1 / sqrt(200) = 7 %, and the mean of the said ones by
        # no more: four times sqrt(2) of that
        torch.testing.assert_close(said.square().mean(0).sqrt(), scatter, rtol=0.4, atol=0)
        off = (found.mean(0) - exact.mean(statistic)).abs()
        assert (off < 5 * scatter / math.sqrt(seeds)).all(), statistic
    total = torch.stack([run.received for run in runs])
    off = (total.mean(0) - exact.received).abs()
    assert (off <= 5 * total.std(0) / math.sqrt(seeds) + 1e-6).all()


def test_as_many_rows_as_there_are_is_all_of_them():
    model, x = Split(fused), torch.randn(2, LENGTH, 8)
    for rows in (LENGTH, LENGTH + 1):
        recording, whole = recorded(model, x, rows=rows), recorded(model, x)
        for one, other in zip(
            vars(recording.layers[""].sums).values(), vars(whole.layers[""].sums).values(), strict=True
        ):
            assert torch.equal(one, other)
        assert (recording.standard_error("entropy") == 0).all()
        assert recording.rows_line() == "all 46 query rows of 2 texts"
    recording = recorded(model, x, rows=LENGTH - 1)
    assert (recording.standard_error("entropy") > 0).all()
    assert recording.rows_line() == "44 sampled of 46 query rows of 2 texts"


def test_a_sample_depends_on_the_text_and_not_on_its_place():
    model, x = Split(fused), torch.randn(3, LENGTH, 8)
    whole = recorded(model, x, rows=SOME)
    turned = recorded(model, x.flip(0), rows=SOME)
    for name in ("rows", "total", "variance", "received"):
        one, other = (getattr(run.layers[""].sums, name) for run in (whole, turned))
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    other = recorded(model, x, rows=SOME, seed=1)
    assert not torch.equal(other.layers[""].sums.total, whole.layers[""].sums.total)


def test_the_overview_of_any_length():
    for length in (1, 2, 63, 64, 65, 100, 130):
        model, x = Split(fused), torch.randn(1, length, 8)
        with torch.no_grad():
            qkv = model.qkv(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
            p = dense(qkv[0], qkv[1], 0.5, torch.ones(length, length).bool().tril())
        check(recorded(model, x).layers[""], [Text(one) for one in p])
