"""Each condition for holding a role, on evidence where one head fails that condition and no other."""

from dataclasses import replace

import numpy as np
import pytest

from headwise.experiments.roles.deciding import decided, role_of_each
from headwise.look.roles.evidence import Evidence
from headwise.look.roles.question import OFFSETS, Question

TEXTS = 40
FIRST = np.arange(TEXTS) % 2 == 0


def evidence(scores, *, control=0.2, even=0.2, offset=0.0, nearest=0.0, controlled=False, offsets=True):
    """One row in each text; each head's scores by text, or one for all of them; the least is 0.5."""
    score = np.stack([np.broadcast_to(np.asarray(each, dtype=float), TEXTS) for each in scores], axis=1)
    by_offset = np.zeros((TEXTS, len(OFFSETS)))
    by_offset[:, OFFSETS.index(-1)] = offset
    return Evidence(
        "a role",
        Question("family", "Why?", dict, least=0.5, margin=0.1, offsets=offsets),
        np.ones(TEXTS),
        by_offset,
        np.full(TEXTS, even),
        np.stack([score, score / 2, score / 4]),
        np.broadcast_to(np.asarray(control, dtype=float), (3, *score.shape)).copy(),
        FIRST,
        np.full(TEXTS, nearest),
        controlled,
    )


def held(found, roles_asked=1):
    heads = found.score.shape[2]
    return [
        int(head.head) for head in decided(found, list(map(str, range(heads))), "data", roles_asked).heads
    ]


@pytest.mark.parametrize(
    ("which", "score"),
    [
        ("good in the first half only", np.where(FIRST, 0.9, 0.1)),
        ("good in the second half only", np.where(FIRST, 0.1, 0.9)),
        ("below the least", 0.49),
        ("below the least in the first half", np.where(FIRST, 0.49, 0.9)),
        ("below the least in the second half", np.where(FIRST, 0.9, 0.49)),
    ],
)
def test_a_head_must_be_good_in_both_halves(which, score):
    assert held(evidence([0.8, score])) == [0], which


@pytest.mark.parametrize("rival", ["even", "offset", "nearest"])
def test_a_head_must_beat_each_rival_by_the_margin(rival):
    assert held(evidence([0.8, 0.72], **{rival: 0.65})) == [0]
    assert held(evidence([0.8, 0.76], **{rival: 0.65})) == [0, 1]


def test_a_distance_is_no_rival_of_a_role_that_is_a_distance():
    assert held(evidence([0.8], offset=0.75, nearest=0.75)) == []
    assert held(evidence([0.8], offset=0.75, nearest=0.75, offsets=False)) == [0]


def test_a_head_must_beat_its_own_control_text_by_the_margin():
    """By chance of 0.91 a head of two is right 40 times in 4.6 %, so chance alone would let it pass."""
    control = np.tile([0.2, 0.91], (TEXTS, 1))
    assert held(evidence([1.0, 1.0], control=control, controlled=True)) == [0]
    assert held(evidence([1.0, 1.0], control=control)) == [0, 1]


def test_a_head_must_be_above_the_baseline_with_confidence():
    """Right in 14 of 20 texts of each half where the baseline is 0.55: 0.15 above, and the error 0.105.

    Right in 16, it is 0.25 above, and the error 0.092.
    """
    fourteen, sixteen = (np.repeat([1.0] * right + [0.0] * (20 - right), 2) for right in (14, 16))
    assert held(evidence([fourteen, sixteen], control=0.0, even=0.55)) == [1]


def test_a_head_must_be_unlikely_by_chance():
    """Its control scores as much as it does."""
    control = np.tile([0.2, 0.8], (TEXTS, 1))
    assert held(evidence([0.8, 0.8], control=control)) == [0]


def test_p_is_of_all_texts():
    """On the first half its control scores as much as it does: the second half alone is unlikely enough."""
    assert held(evidence([0.8], control=np.where(FIRST, 0.8, 0.2)[:, None])) == [0]
    assert held(evidence([0.8], control=np.where(FIRST, 0.2, 0.8)[:, None])) == [0]


def test_p_is_times_the_roles_asked():
    """The smallest p of 9,999 draws is 0.0001: below 5 % of 499 roles, but not of 500."""
    assert held(evidence([0.8]), roles_asked=499) == [0]
    assert held(evidence([0.8]), roles_asked=500) == []


def by_luck(random, texts, planted=()):
    """Hit or miss at chance 0.8 in 72 heads, one row in each text; planted heads hit always."""
    score = (random.random((texts, 72)) < 0.8).astype(float)
    score[:, list(planted)] = 1.0
    even = np.full(texts, 0.8)
    return Evidence(
        "a role",
        Question("family", "Why?", dict, least=0.0, margin=0.1),
        np.ones(texts),
        np.zeros((texts, len(OFFSETS))),
        even,
        np.stack([score] * 3),
        np.full((3, texts, 72), 0.8),
        np.arange(texts) % 2 == 0,
    )


def test_a_run_of_hits_is_not_unlikely_where_chance_is_high():
    """Signs would give it 2^-20 in 20 texts, though it is 0.8^20 = 1.2 % in each of 72 heads."""
    random = np.random.default_rng(0)
    claims = sum(bool(held(by_luck(random, 20))) for _ in range(40))
    assert claims <= 0.05 * 40


def test_a_planted_head_is_found_where_chance_is_high():
    assert held(by_luck(np.random.default_rng(0), 60, planted=[5])) == [5]


def test_p_is_the_larger_of_signs_and_bound():
    """Two heads, 40 texts, all right: 2 times 0.85^40 is far more than the smallest that signs can give."""
    result = decided(evidence([1.0, 0.0], control=0.85), ["a", "b"], "data", 3)
    assert result.best.p == pytest.approx(3 * 2 * 0.85**40, rel=1e-6)
    of_control_texts = decided(evidence([1.0, 0.0], control=0.85, controlled=True), ["a", "b"], "data", 3)
    assert of_control_texts.best.p == pytest.approx(3 / 10_000)


def test_heads_come_in_the_order_of_the_half_on_which_they_are_chosen():
    """The second is better on the half that is told, by luck or not: it must not be named first for it."""
    result = decided(evidence([np.where(FIRST, 0.8, 0.7), np.where(FIRST, 0.7, 0.9)]), ["a", "b"], "data", 1)
    assert [head.head for head in result.heads] == ["a", "b"]
    assert result.best.head == "a"


@pytest.mark.parametrize(
    ("score", "rivals", "verdict"),
    [
        (0.7, {"offset": 0.65}, "position"),
        (0.55, {"offset": 0.5}, "position"),
        (0.65, {"offset": 0.65}, "position"),
        (0.55, {"offset": 0.49}, "none"),  # right in less than half of the rows
        (0.15, {"offset": 0.15, "even": 0.1}, "none"),
        (0.7, {"nearest": 0.65}, "none"),  # no fixed distance
        (0.7, {"even": 0.65}, "none"),
        (0.9, {"offset": 0.7}, "held"),
        (0.6, {"offset": 0.9}, "none"),  # two thirds: not alike
    ],
)
def test_position_is_a_fixed_distance_that_is_often_right(score, rivals, verdict):
    assert decided(evidence([score]), ["a"], "data", 1).verdict in ("held", "none")
    assert decided(evidence([score], **rivals), ["a"], "data", 1).verdict == verdict


def test_texts_of_one_document_are_one_unit():
    """Four copies of each of 40 texts: as documents they say as much as one, as texts they seem more."""
    score = np.where(np.arange(TEXTS) % 4 < 2, 1.0, 0.5)
    one = evidence([score])
    four = replace(
        one,
        counts=np.repeat(one.counts, 4),
        offsets=np.repeat(one.offsets, 4, axis=0),
        even=np.repeat(one.even, 4),
        score=np.repeat(one.score, 4, axis=1),
        control=np.repeat(one.control, 4, axis=1),
        first_half=np.repeat(one.first_half, 4),
        nearest=np.repeat(one.nearest, 4),
    )
    named = replace(four, documents=[f"document {number // 4}" for number in range(4 * TEXTS)])
    once, as_texts, as_documents = (decided(each, ["a"], "data", 1) for each in (one, four, named))
    assert (once.units, as_texts.units, as_documents.units) == ("40 texts", "160 texts", "40 documents")
    assert as_documents.best.error == pytest.approx(once.best.error)
    assert as_texts.best.error == pytest.approx(once.best.error * (19 / 79) ** 0.5)
    assert as_documents.best.p == pytest.approx(once.best.p)


def test_what_is_told_of_a_head():
    """Chosen on the first half, told of the second: 0.9 in 16 of 20 texts of it and 0.5 in the others."""
    second = np.repeat([0.9] * 16 + [0.5] * 4, 2)
    score = np.where(FIRST, 0.6, second)
    result = decided(evidence([0.55, score]), ["0.0", "0.1"], "data", 2)
    assert (result.role, result.family, result.rows, result.texts) == ("a role", "family", 40, 40)
    best = result.best
    assert [head.head for head in result.heads] == ["0.1", "0.0"]
    assert result.units == "40 texts"
    mean = (16 * 0.9 + 4 * 0.5) / 20
    error = np.std([0.9] * 16 + [0.5] * 4, ddof=1) / 20**0.5
    assert (best.head, best.held) == ("0.1", True)
    assert best.score == pytest.approx(mean)
    assert best.error == pytest.approx(error)
    assert (best.low, best.high) == (pytest.approx(mean - 1.96 * error), pytest.approx(mean + 1.96 * error))
    assert best.whole == pytest.approx((mean + 0.6) / 2)
    assert (best.value_weighted, best.without_sinks) == (pytest.approx(mean / 2), pytest.approx(mean / 4))
    assert (best.baseline, best.control, best.p) == (pytest.approx(0.2), pytest.approx(0.2), 0.0002)


def test_the_best_is_the_best_of_the_first_half():
    result = decided(evidence([np.where(FIRST, 0.9, 0.1), np.where(FIRST, 0.1, 0.9)]), ["a", "b"], "data", 1)
    assert (result.best.head, result.best.held, result.verdict) == ("a", False, "none")


def told(name, score, baseline, error, control=0.0):
    """A result of one head."""
    (head,) = decided(evidence([0.8]), ["0.0"], "data", 1).heads
    head = replace(head, score=score, baseline=baseline, error=error, control=control)
    return replace(decided(evidence([0.8]), ["0.0"], "data", 1), role=name, heads=[head])


@pytest.mark.parametrize("rival", ["baseline", "control"])
def test_a_head_has_the_role_in_which_it_gets_most_of_the_way_from_its_rival_to_1(rival):
    """From 0.85 to 0.9 is a third of the way to 1, from 0.1 to 0.6 more than half."""
    high = told("high", 0.9, **{"baseline": 0.0, rival: 0.85}, error=0.01)
    far = told("far", 0.6, **{"baseline": 0.0, rival: 0.1}, error=0.02)
    assert role_of_each([high, far], ["0.0", "0.1"]) == ["far", "none"]
    assert role_of_each([far, high], ["0.0", "0.1"]) == ["far", "none"]
