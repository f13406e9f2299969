"""Roles of what a token is, on maps with answers worked out by hand."""

from dataclasses import replace

import pytest
import torch

from headwise.look.roles.example import example
from headwise.look.roles.tokens import SEGMENT_ASKED as SEGMENT
from headwise.look.roles.tokens import TOKENS_ASKED
from tests.look.roles.by_hand import EXACT, seen

FIRST, SEPARATORS, PUNCTUATION, SAME_TOKEN, SAME_WORD, RAREST = TOKENS_ASKED
MAP = [
    [0.1, 0.2, 0.3, 0.4],
    [0.5, 0.1, 0.3, 0.1],
    [0.2, 0.6, 0.1, 0.1],
    [0.0, 0.1, 0.7, 0.2],
]


def exactly(rows, score, control):
    return rows, pytest.approx(score, abs=EXACT), pytest.approx(control, abs=EXACT)


def test_first_token():
    """The first column but its own row; one of four keys is right."""
    assert seen(example("a b c d"), MAP, FIRST) == {"first token": exactly(3, 0.5 + 0.2 + 0.0, 3 / 4)}


def test_separators_are_special_tokens_but_the_first():
    """Special: 0, 2 and 3. Rows 2 and 3 have one separator each besides themselves."""
    text = replace(example("s a s s"), special=torch.tensor([True, False, True, True]))
    score = (0.3 + 0.4) + (0.3 + 0.1) + 0.1 + 0.7
    control = 2 / 4 + 2 / 4 + 1 / 4 + 1 / 4
    assert seen(text, MAP, SEPARATORS) == {"separators": exactly(4, score, control)}


def test_punctuation_is_words_of_marks_only():
    """A word with letters is none; a token of no word is none, though the list of marks has a last entry."""
    text = replace(example("it's , x $%"), words=torch.tensor([0, 1, -1, 3]))
    score = (0.2 + 0.4) + 0.1 + (0.6 + 0.1) + 0.1
    assert seen(text, MAP, PUNCTUATION) == {"punctuation": exactly(4, score, 2 / 4 + 1 / 4 + 2 / 4 + 1 / 4)}


def test_same_token_looks_both_ways_and_not_at_itself():
    text = example("a b a b")
    score = 0.3 + 0.1 + 0.2 + 0.1
    assert seen(text, MAP, SAME_TOKEN) == {"same token": exactly(4, score, 4 / 4)}


def test_same_token_of_a_causal_text_looks_back():
    triangle = [[1, 0, 0, 0], [0.7, 0.3, 0, 0], [0.2, 0.5, 0.3, 0], [0.1, 0.2, 0.3, 0.4]]
    text = example("a b a b", causal=True)
    assert seen(text, triangle, SAME_TOKEN) == {"same token": exactly(2, 0.2 + 0.2, 1 / 3 + 1 / 4)}


def test_special_tokens_are_never_the_same_token():
    text = replace(example("s a s a"), special=torch.tensor([True, False, True, False]))
    assert seen(text, MAP, SAME_TOKEN) == {"same token": exactly(2, 0.1 + 0.1, 2 / 4)}


def test_same_word_is_the_other_pieces():
    """Tokens 1 to 3 are one word and token 0 is of none, as the special ones."""
    text = replace(example("x a b c"), words=torch.tensor([-1, 0, 0, 0]))
    score = (0.3 + 0.1) + (0.6 + 0.1) + (0.1 + 0.7)
    assert seen(text, MAP, SAME_WORD) == {"same word": exactly(3, score, 3 * 2 / 4)}


def test_two_tokens_of_no_word_are_not_one_word():
    text = replace(example("s a b s"), words=torch.tensor([-1, 0, 0, -1]))
    assert seen(text, MAP, SAME_WORD) == {"same word": exactly(2, 0.3 + 0.6, 2 * 1 / 4)}


def test_rarest_token_is_the_largest_weight_among_the_others():
    """Token 2 is the rarest. Rows 0, 1 and 3 are asked, without themselves: largest at 3, 0 and 2."""
    text = replace(example("a b c d"), counts=torch.tensor([5, 9, 1, 5]))
    assert seen(text, MAP, RAREST) == {"rarest token": exactly(3, 1.0, 3 * 1 / 3)}


def test_a_special_token_is_not_the_rarest_and_does_not_ask():
    """The separator is rarer still. Rows 0 and 1 are asked, among 0, 1 and 2: largest at 2 and at 0."""
    text = replace(
        example("a b c s"), counts=torch.tensor([5, 9, 2, 1]), special=torch.tensor([False] * 3 + [True])
    )
    assert seen(text, MAP, RAREST) == {"rarest token": exactly(2, 1.0, 2 * 1 / 2)}


def test_two_tokens_may_be_the_rarest():
    """Tokens 2 and 3: rows 0 and 1 have three keys with two right; largest at 3 and at 0."""
    text = replace(example("a b c d"), counts=torch.tensor([5, 9, 1, 1]))
    assert seen(text, MAP, RAREST) == {"rarest token": exactly(2, 1.0, 2 * 2 / 3)}


def test_segments_are_compared_with_the_mirrored_tokens():
    """Speakers x x y y y. Row 1: own 0 against 2. Row 2: own 3 against 1, own 4 against 0. Row 3: own 4
    against 2 is its own too, and row 3's mirror of 4 is 2: both own, not asked. Row 0 and 4: no mirror.
    """
    row = [0.3, 0.1, 0.2, 0.15, 0.25]
    text = example("a b c d e", segments=("x", "x", "y", "y", "y"))
    score = 0.3 / (0.3 + 0.2) + (0.15 + 0.25) / (0.15 + 0.1 + 0.25 + 0.3)
    assert seen(text, [row] * 5, SEGMENT) == {"own segment": exactly(2, score, 2 * 0.5)}


def test_a_token_of_no_word_is_of_no_speaker():
    """Between two special tokens, x x y y: row 1 has its own 2 against the first one, and is not asked."""
    row = [0.3, 0.1, 0.2, 0.15, 0.15, 0.1]
    text = example("s a b c d s", segments=("x", "x", "y", "y"))
    text = replace(text, words=torch.tensor([-1, 0, 1, 2, 3, -1]))
    score = 0.1 / (0.1 + 0.15) + 0.15 / (0.15 + 0.2)
    assert seen(text, [row] * 6, SEGMENT) == {"own segment": exactly(2, score, 2 * 0.5)}


def test_words_of_no_segment_are_nobodys():
    """Speakers x, nobody, y, y: row 2 has its own 3 against 1, which is nobody's, so nothing is asked."""
    text = example("a b c d", segments=("x", "", "y", "y"))
    assert seen(text, MAP, SEGMENT) == {}
    assert seen(example("a b c d", segments=("x", "x", "", "")), MAP, SEGMENT) == {}


@pytest.mark.parametrize("question", [SEPARATORS, PUNCTUATION, SAME_TOKEN, SAME_WORD, RAREST, SEGMENT])
def test_what_a_text_does_not_have_is_not_asked(question):
    assert seen(example("a b c d"), MAP, question) == {}
