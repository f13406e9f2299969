"""Attention between words without a model. The pinned figures are the ones the tutorial prints."""

import json

import pytest
import torch

from headwise import reference
from headwise.experiments import attention_by_word

A, B = "charge exceeded refund", "refund exceeded charge"


def test_the_tutorials_figures():
    result = attention_by_word(A, B)
    rounded = [
        {word: round(weight, 3) for word, weight in matrix["exceeded"].items() if word != "exceeded"}
        for matrix in (result.without_a, result.without_b, result.with_a, result.with_b)
    ]
    assert rounded == [
        {"charge": 0.126, "refund": 0.208},
        {"refund": 0.208, "charge": 0.126},
        {"charge": 0.147, "refund": 0.185},
        {"refund": 0.200, "charge": 0.136},
    ]


def test_the_same_by_the_reference_formulas():
    torch.manual_seed(0)
    vectors = {word: torch.randn(8).numpy() for word in ("charge", "exceeded", "refund")}
    x = [vectors[word] for word in B.split()] + reference.positional_encoding(3, 8)
    expected = reference.attention_weights(x, x)
    result = attention_by_word(A, B)
    for i, word in enumerate(B.split()):
        for j, other in enumerate(B.split()):
            assert result.with_b[word][other] == pytest.approx(expected[i, j], abs=1e-6)


@pytest.mark.parametrize("position", ["none", "integers", "learned", "sinusoidal", "rotary", "alibi"])
def test_without_positions_nothing_changes_and_rows_add_up_to_one(position):
    result = attention_by_word(
        "the charge exceeded the refund", "the refund exceeded the charge", position=position
    )
    assert result.largest_change(with_positions=False) < 1e-6
    for matrix in (result.without_a, result.without_b, result.with_a, result.with_b):
        for row in matrix.values():
            assert sum(row.values()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("position", ["integers", "learned", "sinusoidal", "rotary"])
def test_with_positions_the_order_shows(position):
    assert attention_by_word(A, B, position=position).largest_change(with_positions=True) > 0.01


def test_distance_alone_cannot_tell_a_sentence_from_itself_backwards():
    backwards = attention_by_word(A, B, position="alibi")
    assert backwards.largest_change(with_positions=True) < 1e-6
    assert "backwards" in str(backwards)
    assert (
        attention_by_word(A, "exceeded charge refund", position="alibi").largest_change(with_positions=True)
        > 1e-4
    )


def test_a_word_that_occurs_twice_is_summed_and_said_so():
    result = attention_by_word("the charge exceeded the refund", "the refund exceeded the charge")
    assert result.repeated == ["the"]
    assert '"the": more than once' in str(result)
    assert "more than once" not in str(attention_by_word(A, B))
    once = attention_by_word("the charge", "charge the")
    twice = attention_by_word("the charge the", "the charge", position="none")
    assert twice.without_a["charge"]["the"] > once.without_a["charge"]["the"]


def test_the_word_shown_stands_at_the_same_place_in_both():
    assert attention_by_word(A, B).focus == "exceeded"
    assert attention_by_word("cat bites", "bites cat").focus in ("cat", "bites")


def test_raw_numbers_drown_the_words():
    rows = attention_by_word(A, B, position="integers").drowning
    assert [row.length for row in rows] == [3, 10, 100, 1000]
    ratios = [row.position_over_word for row in rows]
    assert ratios == sorted(ratios)
    # positions 0..n-1 have the root mean square sqrt((n - 1)(2n - 1) / 6), words about 1
    assert ratios[-1] == pytest.approx((999 * 1999 / 6) ** 0.5, rel=0.05)
    assert rows[-1].weight_on_last_word > 0.999
    assert "they drown them" in str(attention_by_word(A, B, position="integers"))
    assert attention_by_word(A, B).drowning == []


def test_it_shows_itself_and_gives_json():
    result = attention_by_word(A, B)
    assert all(len(line) <= 80 for line in str(result).splitlines())
    assert "0.147   0.136" in str(result)
    assert json.loads(result.to_json())["with_a"]["exceeded"]["charge"] == result.with_a["exceeded"]["charge"]


def test_a_long_sentence_is_cut_in_the_table_only():
    many = " ".join(f"word{i}" for i in range(30))
    result = attention_by_word(many, " ".join(reversed(many.split())))
    assert "and 18 more" in str(result)
    assert len(result.with_a) == 30
