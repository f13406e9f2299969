"""Links that a text spells out, on maps with answers worked out by hand."""

import pytest
import torch

from headwise.annotations.annotated_text import Link
from headwise.look.roles.example import example
from headwise.look.roles.links import (
    COPIES,
    COPIES_ASKED,
    INDUCTION,
    MEANING,
    MEANING_ASKED,
    OWN_LABELS,
    REPEATS,
)
from tests.look.roles.by_hand import EXACT, seen

MAP = [
    [0.1, 0.2, 0.3, 0.4],
    [0.5, 0.1, 0.3, 0.1],
    [0.2, 0.6, 0.1, 0.1],
    [0.0, 0.1, 0.7, 0.2],
]
LINKS = (
    Link(MEANING, 3, (2,)),
    Link(INDUCTION, 2, (1,)),
    Link(INDUCTION, 3, (2,)),
    Link(COPIES, 2, (0,)),
    Link(COPIES, 3, (1,)),
)


def exactly(rows, score, control):
    return rows, pytest.approx(score, abs=EXACT), pytest.approx(control, abs=EXACT)


@pytest.mark.parametrize(
    ("question", "role", "answer"),
    [
        (MEANING_ASKED, MEANING, (1, 0.7, (0.0 + 0.1 + 0.7) / 3)),
        (REPEATS, INDUCTION, (2, 0.6 + 0.7, (0.9 + 0.8) / 3)),
        (COPIES_ASKED, COPIES, (2, 0.2 + 0.1, (0.9 + 0.8) / 3)),
    ],
)
def test_weight_from_the_query_to_the_key(question, role, answer):
    """By chance any of the three other words is the key: a third of what they get."""
    assert seen(example("a b c d", links=LINKS), MAP, question) == {role: exactly(*answer)}


def test_a_label_of_ones_own_is_held_by_the_largest_weight_on_any_of_its_keys():
    """Row 0 is largest at 3 and row 1 at 0. Its own word is no key and no candidate: row 3 is largest at 2.

    Of the three other words two, one and one are right.
    """
    links = (Link("mine", 0, (1, 3)), Link("mine", 1, (2,)), Link("other", 3, (2, 3)))
    assert seen(example("a b c d", links=links), MAP, OWN_LABELS) == {
        "mine": exactly(2, 1.0, 2 / 3 + 1 / 3),
        "other": exactly(1, 1.0, 1 / 3),
    }


def test_a_link_to_nothing_that_is_seen_is_not_asked():
    links = (Link("mine", 1, (1,)), Link("mine", 0, (2,)))
    text = example("a b c d", causal=True, links=links)
    assert seen(text, torch.eye(4).tolist(), OWN_LABELS) == {}


def test_a_word_that_sees_nothing_but_its_keys_is_not_asked():
    links = (Link("mine", 1, (0,)), Link("mine", 3, (0,)), Link("all", 2, (0, 1)))
    text = example("a b c d", causal=True, links=links)
    assert {label: rows for label, (rows, _, _) in seen(text, torch.eye(4).tolist(), OWN_LABELS).items()} == {
        "mine": 1
    }
