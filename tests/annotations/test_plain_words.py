"""Plain text in words: accents and joiners stay with their letters, and every word finds a token."""

import json

import pytest

from headwise.annotations import AnnotatedText, Arc, Link, Mention, Word, read_labels, words_with_tokens
from headwise.annotations.plain_words import plain_words, words_around
from headwise.core import HeadwiseError
from headwise.experiments.roles.plain_text import plain_sentences
from headwise.experiments.roles.tokenised import tokenised
from headwise.models import open_text_model

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
HELLO = "\u0928\u092e\u0938\u094d\u0924\u0947"  # Devanagari: letters, a virama, a vowel sign


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cafe\u0301s closed", ["cafe\u0301s", "closed"]),
        ("the cafe\u0301's door", ["the", "cafe\u0301's", "door"]),
        ("love \u2764\ufe0f it", ["love", "\u2764\ufe0f", "it"]),
        (f"The {FAMILY} came", ["The", FAMILY, "came"]),
        ("so\u00adft re\u00ad-use", ["so\u00adft", "re\u00ad-use"]),
        (f"{HELLO} {HELLO}", [HELLO, HELLO]),
        ("\u200eleft \u0301", ["\u200eleft", "\u0301"]),
        ("a\u2019b--c", ["a\u2019b", "-", "-", "c"]),
        ("-a 'b'", ["-", "a", "'", "b", "'"]),
    ],
)
def test_marks_that_combine_belong_to_what_they_follow(text, words):
    found = plain_words(text)
    assert [word.text for word in found] == words
    assert all(text[word.start : word.stop] == word.text for word in found)


def test_a_span_is_one_word_whatever_is_in_it():
    found = words_around("The old-time (bank) is", [(13, 19), (4, 7)])
    assert [word.text for word in found] == ["The", "old", "-", "time", "(bank)", "is"]


ORDINARY = [
    'He said that "we should stop."',
    "Well... I do not think so.",
    "It works (I think).",
    "He left -- and she stayed.",
    " -- ",
    "The cafe\u0301 was closed today.",
    "I love it \u2764\ufe0f\u2764\ufe0f so much today.",
    f"The {FAMILY} family came home today.",
    "a\u00adb soft hyphen \u00ad here to day",
    f"{HELLO} \u0926\u0941\u0928\u093f\u092f\u093e \u0906\u091c\u0964",
    "a \u0007 bell and \ufffd a lost letter",
]


@pytest.mark.parametrize("name", [None, "smollm2"])
def test_ordinary_text_finds_its_tokens(name):
    model = open_text_model(name)
    for text in ORDINARY:
        for one in tokenised(model, plain_sentences(text), causal=False):
            assert set(range(len(one.notes.words))) <= set(one.words.tolist()), (model.name, text)
            assert one.notes.words
            assert all(one.notes.text[word.start : word.stop] == word.text for word in one.notes.words)


def test_labels_in_ordinary_text_find_their_tokens(tmp_path):
    file = tmp_path / "mine.json"
    text = "I don't see it (yet)."
    file.write_text(json.dumps({"text": text, "links": [{"label": "x", "from": [12, 14], "to": [[0, 1]]}]}))
    [one] = tokenised(open_text_model("smollm2"), read_labels(file), causal=True)
    assert [word.text for word in one.notes.words] == ["I", "don't", "see", "it", "(", "yet", ")."]
    assert one.notes.links == (Link("x", 3, (0,)),)


def text_of(text, *spans, **notes):
    words = tuple(Word(text[start:stop], start, stop) for start, stop in spans)
    return AnnotatedText(text, words, "mine.json:7", "mine", **notes)


def test_words_of_one_token_are_one_word_and_labels_go_along():
    """Tokens a, b, .", c: the full stop and the quotation mark are one."""
    links = Link("who", 4, (0, 1)), Link("mark", 3, (4,))
    mentions = (Mention("x", 1, 4, 1), Mention("y", 3, 5, 4))
    text = text_of(
        'a b." c',
        *((0, 1), (2, 3), (3, 4), (4, 5), (6, 7)),
        links=links,
        mentions=mentions,
        segments=("A", "A", "A", "B", "B"),
        parts_of_speech=("X", "X", "PUNCT", "PUNCT", "X"),
    )
    merged = words_with_tokens([(0, 1), (1, 3), (3, 5), (5, 7)], text)
    assert [word.text for word in merged.words] == ["a", "b", '."', "c"]
    assert merged.links == (Link("who", 3, (0, 1)), Link("mark", 2, (3,)))
    assert merged.mentions == (Mention("x", 1, 3, 1), Mention("y", 2, 4, 3))
    assert merged.segments == ("A", "A", "", "B")
    assert merged.parts_of_speech == ("X", "X", "PUNCT", "X")
    assert (merged.source, merged.document, merged.text) == (text.source, text.document, text.text)


def test_a_chain_of_words_becomes_one():
    """Of equal shares the first word has the token, so b joins a; cc has most of the other, so d joins it."""
    text = text_of("abccd", (0, 1), (1, 2), (2, 4), (4, 5))
    assert [word.text for word in words_with_tokens([(0, 2), (2, 5)], text).words] == ["ab", "ccd"]
    assert [word.text for word in words_with_tokens([(0, 5)], text).words] == ["abccd"]


def test_a_word_that_no_token_covers_is_no_word():
    text = text_of("a \x07 b", (0, 1), (2, 3), (4, 5), links=(Link("x", 2, (0,)),))
    merged = words_with_tokens([(0, 1), (4, 5)], text)
    assert [word.text for word in merged.words] == ["a", "b"]
    assert merged.links == (Link("x", 1, (0,)),)


def test_a_text_whose_words_all_have_tokens_stays_as_it_is():
    text = text_of("a b", (0, 1), (2, 3))
    assert words_with_tokens([(0, 1), (1, 3)], text) is text


@pytest.mark.parametrize("notes", [{"links": (Link("x", 0, (1,)),)}, {"arcs": (Arc(1, 0, "punct"),)}])
def test_two_labelled_words_of_one_token_are_refused(notes):
    with pytest.raises(HeadwiseError) as caught:
        words_with_tokens([(0, 2)], text_of('."', (0, 1), (1, 2), **notes))
    said = str(caught.value)
    assert said.startswith(
        "mine.json:7: a token must be of one labelled word, got one that covers both '.' and "
    )
