"""Sentences as words, known by what they say and not by where they stand."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from typing import NamedTuple

from headwise.core import HeadwiseError


@cache
def _word() -> re.Pattern[str]:
    marks = (chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M"))
    letter = rf"[\w{''.join(marks)}]"  # a combining mark, as Hindi's vowels are, is no word character to re
    return re.compile(rf"{letter}+(?:['\u2019\-]{letter}+)*")  # don't, mother-in-law


class Word(NamedTuple):
    """A word's identity (its lower-case text) and its place in the sentence, in characters."""

    identity: str
    start: int
    stop: int


def split_words(sentence: str) -> list[Word]:
    """The words of a sentence in order, without punctuation.

    >>> [word.identity for word in split_words("The charge exceeded the refund.")]
    ['the', 'charge', 'exceeded', 'the', 'refund']
    """
    return [Word(match.group().lower(), match.start(), match.end()) for match in _word().finditer(sentence)]


def vocabulary(*sentences: list[Word]) -> list[str]:
    """Every identity once, in order of first appearance.

    >>> vocabulary(split_words("cat bites dog"), split_words("dog bites man"))
    ['cat', 'bites', 'dog', 'man']
    """
    return list(dict.fromkeys(word.identity for sentence in sentences for word in sentence))


def repeated(*sentences: list[Word]) -> list[str]:
    """Identities that occur more than once in a sentence.

    >>> repeated(split_words("the charge exceeded the refund"))
    ['the']
    """
    counts = [Counter(word.identity for word in sentence) for sentence in sentences]
    return [word for word in vocabulary(*sentences) if any(count[word] > 1 for count in counts)]


def check_comparable(a: str, b: str) -> None:
    """Refuse a pair of sentences that gives nothing to compare.

    >>> check_comparable("cat bites dog", "dog bites cat")
    """
    for what, sentence in (("the first sentence", a), ("the second sentence", b)):
        if re.search("[\ud800-\udfff]", sentence):
            raise HeadwiseError(
                who="compare",
                what=what,
                expected="text in UTF-8",
                got=repr(sentence),
                why="Some of its bytes are no letters in that encoding",
                do="Convert it, for example with iconv",
            )
        if not split_words(sentence):
            raise HeadwiseError(
                who="compare",
                what=what,
                expected="at least one word",
                got=repr(sentence),
                why="Attention needs something to attend to",
                do='Put it in quotes, for example "cat bites dog"',
            )
    words_a, words_b = split_words(a), split_words(b)
    if not {word.identity for word in words_a} & {word.identity for word in words_b}:
        raise HeadwiseError(
            who="compare",
            what="the two sentences",
            expected="sentences that share a word",
            got=f"{a!r} and {b!r}",
            why="What is compared is how the same word attends in both",
            do='Give the same words in another order, for example "cat bites dog" "dog bites cat"',
        )
    if a == b:
        raise HeadwiseError(
            who="compare",
            what="the two sentences",
            expected="different",
            got=f"{a!r} twice",
            why="Nothing differs between a sentence and itself",
            do="Give the same words in another order",
        )
