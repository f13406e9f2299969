"""Plain text as sentences and words, for the roles that need no trees."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwise.annotations import AnnotatedText
from headwise.annotations.plain_words import plain_words

_PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_END = re.compile(r"(?<=[.!?])[\"'\u2019\u201d)\]]*\s+|(?<=[\u3002\uff01\uff1f])")


def plain_sentences(text: str, *, source: str = "text") -> list[AnnotatedText]:
    """The sentences of a plain text, without trees; each paragraph is a document of its own.

    Paragraphs are parted by empty lines. A sentence ends at a full stop, an exclamation or a question mark
    before white space, so that ``Mr. Smith`` is cut in two: a parser knows better (``silver_trees``). Words
    are those of ``plain_words``. White space is made one space.

    >>> first, second = plain_sentences("It rained. We\\nstayed in.")
    >>> second.text, [word.text for word in second.words], second.source
    ('We stayed in.', ['We', 'stayed', 'in', '.'], 'text:1')
    """
    found = []
    for number, paragraph in enumerate(_PARAGRAPH.finditer(text), start=1):
        for sentence, start in _sentences(paragraph.group(), paragraph.start()):
            line = text.count("\n", 0, start) + 1
            words = tuple(plain_words(sentence))
            if words:
                found.append(
                    AnnotatedText(sentence, words, f"{source}:{line}", f"{source} paragraph {number}")
                )
    return found


def _sentences(paragraph: str, start: int) -> Iterator[tuple[str, int]]:
    """Each sentence with single spaces, and the character of the text where it begins."""
    at = 0
    for stop in [*(match.end() for match in _END.finditer(paragraph)), len(paragraph)]:
        piece = paragraph[at:stop]
        if piece.strip():
            yield " ".join(piece.split()), start + at + len(piece) - len(piece.lstrip())
        at = stop
