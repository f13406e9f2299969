"""Offsets and nearness on maps with answers worked out by hand; previous is previous."""

import pytest

from headwise.look.roles.example import example
from headwise.look.roles.positions import POSITIONS, offset_question
from tests.look.roles.by_hand import EXACT, evidence_of, seen

MAP = [
    [0.1, 0.2, 0.3, 0.4],
    [0.5, 0.1, 0.3, 0.1],
    [0.2, 0.6, 0.1, 0.1],
    [0.0, 0.1, 0.7, 0.2],
]
NAMES = {-1: "previous token", 0: "the token itself", 1: "next token"}


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (-3, [0.0]),
        (-2, [0.2, 0.1]),
        (-1, [0.5, 0.6, 0.7]),
        (0, [0.1, 0.1, 0.1, 0.2]),
        (1, [0.2, 0.3, 0.1]),
        (2, [0.3, 0.1]),
        (3, [0.4]),
    ],
)
def test_offsets_read_their_diagonal(offset, entries):
    """Each row has four keys to look at and one is right: chance scores a quarter of a row's weight of 1."""
    rows, score, control = seen(example("a b c d"), MAP, offset_question(offset))[
        NAMES.get(offset, f"token at {offset:+d}")
    ]
    assert rows == len(entries)
    assert score == pytest.approx(sum(entries), abs=EXACT)
    assert control == pytest.approx(len(entries) / 4, abs=EXACT)


def test_a_causal_text_asks_rows_that_have_a_choice():
    """Rows see 1, 2, 3 and 4 keys: the first has no choice. Nothing comes next."""
    text = example("a b c d", causal=True)
    triangle = [[1, 0, 0, 0], [0.7, 0.3, 0, 0], [0.2, 0.5, 0.3, 0], [0.1, 0.2, 0.3, 0.4]]
    rows, score, control = seen(text, triangle, offset_question(-1))["previous token"]
    assert (rows, score) == (3, pytest.approx(0.7 + 0.5 + 0.3, abs=EXACT))
    assert control == pytest.approx(1 / 2 + 1 / 3 + 1 / 4, abs=EXACT)
    rows, score, _ = seen(text, triangle, offset_question(0))["the token itself"]
    assert (rows, score) == (3, pytest.approx(0.3 + 0.3 + 0.4, abs=EXACT))
    assert seen(text, triangle, offset_question(1)) == {}


def test_even_attention_is_the_baseline_of_a_distance_and_no_offset_is():
    (found,) = evidence_of(
        [example("a b c d", causal=True)],
        [[[[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]]],
        offset_question(-1),
    ).values()
    assert (found.best_offset, found.baseline_name) == (None, "even attention")
    assert found.baseline(found.everything) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3, abs=EXACT)


def test_nearby_is_five_on_either_side():
    """Of nine places the outer three of each end see others: 6, 7, 8; 7, 8; 8, and the same mirrored.

    Rows 3, 4 and 5 have every place within five and are not asked.
    """
    row = [0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.15, 0.1, 0.05]
    rows, score, control = seen(example("a b c d e f g h i"), [row] * 9, POSITIONS[-1])["nearby"]
    assert rows == 6
    far = [0.15 + 0.1 + 0.05, 0.1 + 0.05, 0.05, 0.02, 0.02 + 0.03, 0.02 + 0.03 + 0.05]
    assert score == pytest.approx(sum(1 - weight for weight in far), abs=EXACT)
    assert control == pytest.approx((6 + 7 + 8 + 8 + 7 + 6) / 9, abs=EXACT)


def test_the_battery_asks_three_places_on_either_side_and_nearby():
    text = example("a b c d e f g h i")
    assert [role for question in POSITIONS for role in question.find(text)] == [
        "token at -3", "token at -2", "previous token", "the token itself",
        "next token", "token at +2", "token at +3", "nearby",
    ]  # fmt: skip
