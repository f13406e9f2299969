"""Tokens find their words by characters, whatever the tokenizer does to them."""

import pytest

from headwise.annotations import AnnotatedText, Word, words_of_tokens
from headwise.core import HeadwiseError
from headwise.models import open_text_model

TEXT = AnnotatedText(
    "ab cde, f", (Word("ab", 0, 2), Word("cde", 3, 6), Word(",", 6, 7), Word("f", 8, 9)), "t:7", "t"
)


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([(0, 2), (3, 6), (6, 7), (8, 9)], [0, 1, 2, 3]),
        ([(0, 0), (0, 1), (1, 2), (3, 4), (4, 6), (6, 7), (8, 9), (0, 0)], [-1, 0, 0, 1, 1, 2, 3, -1]),
        ([(0, 2), (2, 6), (6, 7), (7, 9)], [0, 1, 2, 3]),  # spaces that belong to the word behind them
        ([(0, 2), (2, 3), (3, 6), (6, 7), (8, 9)], [0, -1, 1, 2, 3]),  # a space of its own
        (
            [(0, 2), (3, 4), (4, 7), (6, 7), (8, 9)],
            [0, 1, 1, 2, 3],
        ),  # two characters of cde, one of the comma
        ([(0, 2), (3, 5), (5, 7), (6, 7), (8, 9)], [0, 1, 1, 2, 3]),  # one of each: the first
        ([(8, 9), (6, 7), (3, 6), (0, 2)], [3, 2, 1, 0]),  # in no order
    ],
)
def test_by_hand(spans, words):
    assert words_of_tokens(spans, TEXT) == words


def test_a_word_without_a_token_is_said():
    with pytest.raises(HeadwiseError) as caught:
        words_of_tokens([(0, 2), (3, 7), (8, 9)], TEXT)
    assert "t:7: word 3 of 4, ',', must be at least one token's, got none for characters 6 to 6" in str(
        caught.value
    )


def test_a_tokenizer_that_splits_words():
    model = open_text_model()
    words = ("unbelievably", "tokenizable", "dogs")
    starts = (0, 13, 25)
    text = AnnotatedText(
        " ".join(words),
        tuple(Word(word, start, start + len(word)) for word, start in zip(words, starts, strict=True)),
        "typed:1",
        "typed",
    )
    encoded = model.encode(text.text)
    owners = words_of_tokens(encoded.spans, text)
    assert owners[0] == owners[-1] == -1  # [CLS] and [SEP]
    spelled = ["", "", ""]
    for owner, (start, stop) in zip(owners[1:-1], encoded.spans[1:-1], strict=True):
        spelled[owner] += text.text[start:stop]
    assert tuple(spelled) == words
    assert len(owners) > 2 + 3
