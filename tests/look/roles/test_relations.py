"""Syntax between words, on maps with answers worked out by hand; direction and split words included."""

from dataclasses import replace

import pytest
import torch

from headwise.annotations.annotated_text import AnnotatedText, Arc, Word
from headwise.look.roles.evidence import RAW, VALUE_WEIGHTED, WITHOUT_SINKS
from headwise.look.roles.example import example
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import OFFSETS, Items, by_distance
from headwise.look.roles.relations import SYNTAX, relations
from tests.look.roles.by_hand import EXACT, evidence_of, seen

ARCS = (Arc(0, 1, "det"), Arc(1, 2, "nsubj"), Arc(3, 2, "obj:of"))
MAP = [
    [0.90, 0.04, 0.05, 0.01],  # the largest but for itself: 2, and its head is 1
    [0.10, 0.20, 0.40, 0.30],  # 2, its head; not 0, its dependent
    [0.10, 0.30, 0.00, 0.60],  # 3, its object; not 1, its subject
    [0.20, 0.00, 0.30, 0.50],  # 2, its head
]


def scores(found):
    return {role: (rows, score) for role, (rows, score, _) in found.items()}


def test_each_direction_of_each_relation():
    assert scores(seen(example("the dog saw cats", arcs=ARCS), MAP, SYNTAX)) == {
        "det, dependent to head": (1, 0.0),
        "det, head to dependent": (1, 0.0),
        "nsubj, dependent to head": (1, 1.0),
        "nsubj, head to dependent": (1, 0.0),
        "obj, dependent to head": (1, 1.0),
        "obj, head to dependent": (1, 1.0),
    }


def test_a_causal_text_asks_for_words_before_and_compares_those_only():
    triangle = [[1, 0, 0, 0], [0.7, 0.3, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]]
    assert scores(seen(example("the dog saw cats", causal=True, arcs=ARCS), triangle, SYNTAX)) == {
        "nsubj, head to dependent": (1, 1.0),
        "obj, dependent to head": (1, 1.0),
    }


def test_a_row_that_sees_no_word_but_its_target_is_not_asked():
    """The second word of a causal text sees one other: every head is right there."""
    arcs = (Arc(1, 0, "obj"), Arc(2, 0, "obj"))
    found = relations(example("a b c", causal=True, arcs=arcs))["obj, dependent to head"]
    assert found.rows.tolist() == [2]
    assert relations(example("a b", arcs=arcs[:1])) == {}


def split_word():
    """[special] the, un-happ-y, dog; words 0, 1 1 1, 2 with an arc from each to the last."""
    notes = AnnotatedText(
        "the unhappy dog",
        (Word("the", 0, 3), Word("unhappy", 4, 11), Word("dog", 12, 15)),
        "here",
        "one",
        arcs=(Arc(0, 2, "det"), Arc(1, 2, "amod")),
    )
    special = torch.tensor([True, False, False, False, False, False])
    return Labelled(torch.arange(6), special, torch.tensor([-1, 0, 1, 1, 1, 2]), notes)


SPLIT_MAP = [
    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.2, 0.2, 0.2, 0.4],  # no piece gets more than "dog", all three together do
    [0.0, 0.7, 0.0, 0.0, 0.0, 0.3],
    [0.0, 0.1, 0.0, 0.0, 0.0, 0.9],
    [0.6, 0.1, 0.0, 0.0, 0.0, 0.3],  # two of three pieces see more of "dog" but the sum is what counts
    [0.0, 0.0, 0.1, 0.2, 0.3, 0.4],
]


def test_words_are_sums_over_pieces_attended_and_means_over_pieces_that_attend():
    """By word: the -> unhappy 0.6, dog 0.4; unhappy -> the 0.9 / 3, dog 1.5 / 3; dog -> unhappy 0.6."""
    between = SYNTAX.unit.read(torch.tensor([SPLIT_MAP]), split_word())[0]
    want = torch.tensor([[0.0, 0.6, 0.4], [0.3, 0.0, 0.5], [0.0, 0.6, 0.4]])
    torch.testing.assert_close(between, want, atol=EXACT, rtol=0)
    assert SYNTAX.unit.sizes(split_word()).tolist() == [1, 3, 1]


def test_a_split_word_wins_by_its_sum_and_asks_by_its_mean():
    assert scores(seen(split_word(), SPLIT_MAP, SYNTAX)) == {
        "det, dependent to head": (1, 0.0),
        "det, head to dependent": (1, 0.0),
        "amod, dependent to head": (1, 1.0),
        "amod, head to dependent": (1, 1.0),
    }


def test_even_attention_prefers_the_word_of_most_pieces():
    """The baseline of even attention: "the" and "dog" look at "unhappy", which ties "the" and "dog"."""
    found = evidence_of([split_word()], [[SPLIT_MAP]], SYNTAX)
    assert {role: each.even.tolist() for role, each in found.items()} == {
        "det, dependent to head": [0.0],
        "det, head to dependent": [0.0],
        "amod, dependent to head": [0.5],
        "amod, head to dependent": [1.0],
    }


def test_the_best_fixed_offset_is_found_in_words():
    """Objects two, one and one after their verb: always -1 gets two of three right."""
    arcs = (Arc(2, 0, "obj"), Arc(1, 0, "obj"), Arc(3, 2, "obj"))
    found = evidence_of([example("a b c d", arcs=arcs)], [[MAP]], SYNTAX)["obj, dependent to head"]
    assert dict(zip(OFFSETS, found.offsets[0].tolist(), strict=True))[-2] == 1
    assert dict(zip(OFFSETS, found.offsets[0].tolist(), strict=True))[-1] == 2
    assert found.offsets.sum() == 3
    assert (found.best_offset, found.baseline_name) == (-1, "always -1")
    assert found.baseline(found.everything) == pytest.approx(2 / 3)


def test_chance_knows_how_far_away_heads_are():
    """Objects at -1, -2 and -1 of rows 2, 3 and 4: two to one. The head looks at 0, 2 and 3, which is at -2,
    -1 and -1: chance makes it 1/3, 2/3 and 2/3, and the last is right.
    """
    arcs = (Arc(2, 1, "obj"), Arc(3, 1, "obj"), Arc(4, 3, "obj"))
    causal = [
        [1, 0, 0, 0, 0],
        [0.7, 0.3, 0, 0, 0],
        [0.5, 0.3, 0.2, 0, 0],
        [0.1, 0.2, 0.3, 0.4, 0],
        [0.1, 0.1, 0.2, 0.3, 0.3],
    ]
    found = seen(example("a b c d e", causal=True, arcs=arcs), causal, SYNTAX)
    assert found["obj, dependent to head"] == (3, 1.0, pytest.approx(1 / 3 + 2 / 3 + 2 / 3, abs=EXACT))


def test_chance_is_made_of_all_texts_and_of_no_other_role():
    """Three texts of objects at -1, -2, -2 and a subject at -1: in the third row, -2 is twice as likely."""
    texts = [
        example("a b c", causal=True, arcs=(Arc(2, 1, "obj"), Arc(2, 1, "nsubj"))),
        example("a b c", causal=True, arcs=(Arc(2, 0, "obj"),)),
        example("a b c", causal=True, arcs=(Arc(2, 0, "obj"),)),
    ]
    maps = [[[[1, 0, 0], [0.5, 0.5, 0], [0.7, 0.2, 0.1]]]] * 3
    found = evidence_of(texts, maps, SYNTAX)["obj, dependent to head"]
    assert found.score[0, :, 0].tolist() == [0.0, 1.0, 1.0]
    assert found.control[0, :, 0].tolist() == pytest.approx([2 / 3] * 3, abs=EXACT)


ROW = [0.4, 0.1, 0.3, 0.2]  # of row 3: the largest but for itself is 0, and its head is 2
OBJECT = "obj, dependent to head"


@pytest.mark.parametrize(("special", "wanted"), [(False, 1.0), (True, 0.0)])
def test_without_sinks_the_first_and_special_tokens_get_nothing(special, wanted):
    """Without the first token 2 has most, unless it is special itself: then 1 has."""
    text = example("a b c d", arcs=(Arc(3, 2, "obj"),))
    text = replace(text, special=torch.tensor([False, False, special, False]))
    found = evidence_of([text], [[[ROW] * 4]], SYNTAX)[OBJECT]
    assert found.score[[RAW, WITHOUT_SINKS], 0, 0].tolist() == [0.0, wanted]


def test_weighted_by_values_a_long_value_counts_for_more():
    """The value of 2 is twice as long as the others: 0.6 of 1.3, more than 0.4 of it."""
    text = example("a b c d", arcs=(Arc(3, 2, "obj"),))
    values = torch.tensor([1.0, 1.0, 2.0, 1.0])[None, None, :, None] * torch.tensor([0.6, 0.8])
    found = evidence_of([text], [[[ROW] * 4]], SYNTAX, values=values)[OBJECT]
    assert found.score[[RAW, VALUE_WEIGHTED], 0, 0].tolist() == [0.0, 1.0]


def test_the_length_of_a_value_is_that_of_what_it_adds():
    """All values have length 1. What mixes the heads doubles that of 2 for one, halves it for the other."""
    text = example("a b c d", arcs=(Arc(3, 2, "obj"),))
    values = torch.eye(4).expand(1, 2, 4, 4)
    mixes = torch.diag(torch.tensor([1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.5, 1.0]))
    given = {"values": values, "output_weights": {"": mixes}}
    found = evidence_of([text], [[[ROW] * 4] * 2], SYNTAX, **given)[OBJECT]
    assert found.score[VALUE_WEIGHTED, 0].tolist() == [1.0, 0.0]


def test_the_nearest_word_is_the_one_before_where_both_are_as_near():
    """Every other word is a candidate: the one before is nearest, but for the first word the one after."""
    arcs = (Arc(0, 1, "det"), Arc(1, 2, "det"), Arc(2, 1, "det"), Arc(3, 1, "det"))
    found = evidence_of([example("a b c d", arcs=arcs)], [[MAP]], SYNTAX)["det, dependent to head"]
    assert found.nearest.tolist() == [2.0]


def test_chance_gives_nothing_to_what_is_no_candidate():
    """Targets at -2 and -1 of row 2, the second of which has nothing else to look at."""
    targets = torch.tensor([[True, False, False], [False, True, False]])
    candidates = torch.tensor([[True, True, False], [False, True, False]])
    (chance,) = by_distance([Items(torch.tensor([2, 2]), targets, candidates)], [torch.tensor([0, 0])])
    assert chance.tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]


def test_punctuation_is_no_relation_of_syntax():
    """A head that rests on the full stop would find it from every root."""
    text = example("dogs bark .", arcs=(Arc(0, 1, "nsubj"), Arc(2, 1, "punct")))
    assert list(relations(text)) == ["nsubj, dependent to head", "nsubj, head to dependent"]


def test_a_head_that_rests_on_the_first_word_holds_no_relation_of_first_words():
    """Interjections open sentences: their head looks back at word 0, as any sink does."""
    between = ["well dogs bark", "well so dogs bark", "well so very dogs bark"]
    texts = [
        example(sentence, causal=True, arcs=(Arc(0, len(sentence.split()) - 1, "discourse"),))
        for sentence in between
    ]
    on_first = [torch.eye(len(text))[[0] * len(text)][None] for text in texts]
    found = evidence_of(texts, on_first, SYNTAX)["discourse, head to dependent"]
    assert found.mean().tolist() == [1.0]
    assert (found.baseline_name, found.baseline(found.everything)) == ("the first", 1.0)
