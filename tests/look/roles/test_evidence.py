"""Means, errors, baselines and margins of evidence, against plain loops over texts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from headwise.look.roles.evidence import RAW, VALUE_WEIGHTED, WITHOUT_SINKS, Evidence
from headwise.look.roles.question import OFFSETS, Question

TEXTS, HEADS = 7, 3
# sums of some ten float64 numbers below 10, each rounded a few times
EXACT = 1e-12


def made(**changes):
    """Scores of seven texts with 1 to 4 rows each, drawn once."""
    random = np.random.default_rng(0)
    counts = random.integers(1, 5, TEXTS).astype(float)
    score, control = (random.uniform(0, 1, (3, TEXTS, HEADS)) * counts[None, :, None] for _ in range(2))
    control[..., 1] *= 0.2  # so that one head is nearer to the baseline and the others to their control
    found = Evidence(
        "a role",
        Question("family", "Why?", dict),
        counts,
        random.integers(0, 2, (TEXTS, len(OFFSETS))).astype(float),
        random.uniform(0, 0.3, TEXTS) * counts,
        score,
        control,
        np.array([True, False, True, True, False, False, False]),
    )
    return replace(found, **changes)


def mean(sums, counts, texts):
    return sum(sums[t] for t in texts) / sum(counts[t] for t in texts)


def error(sums, counts, texts):
    """Of a ratio of sums over texts, which are drawn and independent."""
    ratio, rows = mean(sums, counts, texts), sum(counts[t] for t in texts)
    squares = sum((sums[t] - ratio * counts[t]) ** 2 for t in texts)
    return math.sqrt(len(texts) / (len(texts) - 1) * squares) / rows


@pytest.mark.parametrize("variant", [RAW, VALUE_WEIGHTED, WITHOUT_SINKS])
@pytest.mark.parametrize("half", ["first_half", "second_half", "everything"])
def test_means_and_errors(half, variant):
    found = made()
    texts = {"first_half": [0, 2, 3], "second_half": [1, 4, 5, 6], "everything": range(7)}[half]
    which = getattr(found, half)
    for head in range(HEADS):
        sums, control = found.score[variant, :, head], found.control[variant, :, head]
        assert found.mean(which, variant)[head] == pytest.approx(mean(sums, found.counts, texts), abs=EXACT)
        assert found.error(which, variant)[head] == pytest.approx(error(sums, found.counts, texts), abs=EXACT)
        of_control = found.mean_of_control(which, variant)[head]
        assert of_control == pytest.approx(mean(control, found.counts, texts), abs=EXACT)
    assert found.rows(which) == sum(found.counts[t] for t in texts)


def test_the_error_of_equal_texts_is_that_of_a_mean():
    """With one row in each text: the standard deviation of the scores, by sqrt(texts)."""
    scores = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    found = made(counts=np.ones(7), score=np.tile(scores[None, :, None], (3, 1, HEADS)))
    assert found.error()[0] == pytest.approx(scores.std(ddof=1) / math.sqrt(7), abs=EXACT)


def test_the_error_is_how_far_means_of_drawn_texts_differ():
    """Rows of a text agree, so texts are drawn, not rows: 400 draws of 60 texts with 1 to 9 equal rows each.

    The deviation of 400 draws is known to 1 / sqrt(2 * 400), 3.5 %, and the mean of the errors far better:
    five times that is 18 %.
    """
    random, means, errors = np.random.default_rng(0), [], []
    for _ in range(400):
        counts = random.integers(1, 10, 60).astype(float)
        score = np.tile((counts * (random.random(60) < 0.4))[None, :, None], (3, 1, 1))
        found = made(
            counts=counts, score=score, control=score, even=counts, offsets=np.zeros((60, 11)),
            first_half=np.arange(60) % 2 == 0,
        )  # fmt: skip
        means.append(found.mean()[0])
        errors.append(found.error()[0])
    assert np.std(means) == pytest.approx(np.mean(errors), rel=0.18)


def test_the_baseline_is_the_best_offset_of_all_texts_or_even_attention():
    offsets = np.zeros((TEXTS, len(OFFSETS)))
    offsets[:, OFFSETS.index(-1)] = [1, 0, 1, 1, 1, 0, 1]  # 5
    offsets[:, OFFSETS.index(2)] = [0, 1, 1, 1, 0, 1, 0]  # 4, though 2 of the second half as well
    counts, even = np.full(TEXTS, 2.0), np.full(TEXTS, 0.5)
    found = made(offsets=offsets, counts=counts, even=even)
    assert (found.best_offset, found.baseline_name) == (-1, "always -1")
    assert found.baseline(found.everything) == pytest.approx(5 / 14)
    assert found.baseline(found.second_half) == pytest.approx(2 / 8)
    even = replace(found, even=np.full(TEXTS, 0.75))  # 5.25 of all
    assert (even.baseline_name, even.baseline(even.second_half)) == ("even attention", pytest.approx(3 / 8))
    nearest = replace(found, nearest=np.array([1.0, 0, 1, 1, 1, 1, 1]))  # 6 of all
    assert (nearest.baseline_name, nearest.baseline(nearest.second_half)) == ("the nearest", 3 / 8)
    alike = replace(found, nearest=found.offsets[:, OFFSETS.index(-1)])
    assert alike.baseline_name == "always -1"
    distance_is_the_role = replace(
        found, question=Question("position", "Why?", dict, offsets=False), nearest=np.ones(TEXTS)
    )
    assert distance_is_the_role.best_offset is None
    assert distance_is_the_role.baseline(found.everything) == pytest.approx(0.5 / 2)


@pytest.mark.parametrize("controlled", [False, True])
def test_a_head_is_above_the_nearer_of_baseline_and_control(controlled):
    found = made(controlled=controlled)
    texts = [1, 4, 5, 6]
    best = max(range(len(OFFSETS)), key=lambda place: found.offsets[:, place].sum())
    rival = found.offsets[:, best] if found.offsets[:, best].sum() >= found.even.sum() else found.even
    above, errors = found.above(found.second_half)
    for head in range(HEADS):
        own = found.score[RAW, :, head]
        contrasts = [own - rival] + ([own - found.control[RAW, :, head]] if controlled else [])
        nearest = min(contrasts, key=lambda sums: mean(sums, found.counts, texts))
        assert above[head] == pytest.approx(mean(nearest, found.counts, texts), abs=EXACT)
        assert errors[head] == pytest.approx(error(nearest, found.counts, texts), abs=EXACT)


def test_control_matters_where_it_is_the_nearer():
    """The case above must hold both kinds of head, or it shows nothing."""
    without, along = (
        made(controlled=controlled).above(made().second_half)[0] for controlled in (False, True)
    )
    assert (along < without).tolist() == [True, False, True]


def test_excess_is_by_text():
    found = made()
    assert np.array_equal(
        found.excess(found.second_half), (found.score[RAW] - found.control[RAW])[[1, 4, 5, 6]]
    )


def of_documents(per_half, texts=3):
    """Documents of three texts in turn on either side, with scores that are drawn."""
    random, count = np.random.default_rng(0), 2 * per_half * texts
    number = np.arange(count) % (2 * per_half)
    counts = random.integers(1, 5, count).astype(float)
    return made(
        counts=counts,
        score=random.uniform(0, 1, (3, count, HEADS)) * counts[None, :, None],
        control=random.uniform(0, 1, (3, count, HEADS)) * counts[None, :, None],
        first_half=number % 2 == 0,
        documents=[f"document {each}" for each in number],
    )


def test_twenty_documents_on_either_side_are_the_units():
    found = of_documents(20)
    assert found.units == "40 documents"
    names = [name for name, first in zip(found.documents, found.first_half, strict=True) if not first]
    places = np.flatnonzero(found.second_half)
    for head in range(HEADS):
        sums, counts = {}, {}
        for name, at in zip(names, places, strict=True):
            sums[name] = sums.get(name, 0.0) + found.score[RAW, at, head]
            counts[name] = counts.get(name, 0.0) + found.counts[at]
        want = error(sums, counts, list(sums))
        assert found.error(found.second_half)[head] == pytest.approx(want, abs=EXACT)
    assert found.excess(found.second_half).shape == (20, HEADS)
    total = (found.score[RAW] - found.control[RAW]).sum(0)
    assert found.excess(found.everything).sum(0) == pytest.approx(total, abs=100 * EXACT)


def test_with_fewer_documents_texts_are_the_units():
    found = of_documents(19)
    assert (found.units, len(found.excess(found.everything))) == ("114 texts", 114)


def test_one_text_has_no_error():
    found = made(first_half=np.array([True] + [False] * 6))
    assert np.isnan(found.error(found.first_half)).all()
