"""How plain text is cut into words, wherever nobody has said what its words are."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache

from headwise.annotations.annotated_text import Word

_JOINER = "\u200d"  # makes one sign of two, as of a family of people


def plain_words(text: str, start: int = 0, stop: int | None = None) -> list[Word]:
    """The words of the text from ``start`` to ``stop``.

    A word is letters and digits, with hyphens and apostrophes inside; every other mark is a word of its own.
    Combining marks and format characters (Unicode's categories M and Cf: accents written apart, vowel signs,
    soft hyphens, joiners) belong to what they follow, or to what they stand before where they follow nothing.

    >>> [word.text for word in plain_words("Don't re-use it (yet).")]
    ["Don't", 're-use', 'it', '(', 'yet', ')', '.']
    >>> len(plain_words("cafe\\u0301s"))
    1
    """
    found = _pattern().finditer(text, start, len(text) if stop is None else stop)
    return [Word(match.group(), *match.span()) for match in found]


def words_around(text: str, spans: Iterable[tuple[int, int]]) -> list[Word]:
    """The spans as one word each, which may not overlap, and the words of the text between them.

    >>> [word.text for word in words_around("A credit card is here.", [(2, 13)])]
    ['A', 'credit card', 'is', 'here', '.']
    """
    words, before = [], 0
    for start, stop in sorted(spans):
        words += [*plain_words(text, before, start), Word(text[start:stop], start, stop)]
        before = stop
    return words + plain_words(text, before)


@cache
def _pattern() -> re.Pattern[str]:
    """Made when first used: the standard library's expressions know no categories, so all are looked up."""
    joining = [at for at in range(sys.maxunicode + 1) if _joins(chr(at))]
    marks = f"[{''.join(map(re.escape, map(chr, joining)))}]*"
    letters = rf"(?:\w{marks})+"
    word = rf"{letters}(?:['\u2019-]{marks}{letters})*"
    sign = rf"[^\w\s]{marks}(?:(?<={_JOINER})[^\w\s]{marks})*"
    return re.compile(f"{marks}(?:{word}|{sign})")


def _joins(letter: str) -> bool:
    category = unicodedata.category(letter)
    return category[0] == "M" or category == "Cf"
