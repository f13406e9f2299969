"""Coreference on a map with answers worked out by hand: Ann Bob Eve Ann she she doctor, Bob the doctor."""

import pytest

from headwise.annotations.annotated_text import Mention
from headwise.look.roles.coreference import (
    COREFERENCE,
    MENTIONS_OTHER_WORD,
    PRONOUNS,
    PRONOUNS_OTHER_WORD,
)
from headwise.look.roles.example import example
from headwise.look.roles.question import OFFSETS
from tests.look.roles.by_hand import EXACT, evidence_of, seen

TEXT = example(
    "Ann Bob Eve Ann she she doctor",
    mentions=tuple(Mention(entity, at, at + 1, at) for at, entity in enumerate("1231112")),
    parts_of_speech=("PROPN", "PROPN", "PROPN", "PROPN", "PRON", "PRON", "NOUN"),
)
OTHERS = [1, 0, 0, 0, 0, 0, 0]
MAP = [
    OTHERS,
    OTHERS,
    OTHERS,
    OTHERS,
    [0.10, 0.20, 0.10, 0.25, 0.00, 0.35, 0.00],  # she: 5 comes later; of 0 to 3 the largest is 3, Ann
    [0.10, 0.20, 0.05, 0.10, 0.50, 0.05, 0.00],  # she: 4, she; of other words 1, Bob
    [0.10, 0.30, 0.10, 0.10, 0.10, 0.10, 0.20],  # doctor: 1, Bob
]


def exactly(rows, score, control):
    return rows, pytest.approx(score, abs=EXACT), pytest.approx(control, abs=EXACT)


def test_from_a_mention_to_an_earlier_one_of_its_entity():
    """Chance: of four earlier words two are Ann, of five three; of others two of four; one of six is Bob.

    The second Ann is asked too, but of three earlier words one is her own: two others are too few.
    """
    assert seen(TEXT, MAP, COREFERENCE) == {
        PRONOUNS: exactly(2, 2.0, 2 / 4 + 3 / 5),
        PRONOUNS_OTHER_WORD: exactly(2, 1.0, 2 / 4 + 2 / 4),
        MENTIONS_OTHER_WORD: exactly(3, 2.0, 2 / 4 + 2 / 4 + 1 / 6),
    }


def test_the_nearest_places_are_the_rival():
    """Pronouns look to 0 and 3 from 4, to 0, 3 and 4 from 5: always -1 is right twice, even 1.1 times."""
    found = evidence_of([TEXT], [[MAP]], COREFERENCE)[PRONOUNS]
    right = dict(zip(OFFSETS, found.offsets[0].tolist(), strict=True))
    assert {offset: count for offset, count in right.items() if count} == {-5: 1, -4: 1, -2: 1, -1: 2}
    assert found.baseline_name == "always -1"
    assert found.even.tolist() == pytest.approx([2 / 4 + 3 / 5], abs=EXACT)


def test_the_nearest_mention_is_a_rival_too():
    """From 4 it is 3, Ann; from 5 it is 4, she, and of other words 3; from the doctor it is 5, who is Ann."""
    found = evidence_of([TEXT], [[MAP]], COREFERENCE)
    assert {role: each.nearest.tolist() for role, each in found.items()} == {
        PRONOUNS: [2.0],
        PRONOUNS_OTHER_WORD: [2.0],
        MENTIONS_OTHER_WORD: [2.0],
    }
