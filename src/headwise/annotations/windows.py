"""Whole documents in pieces of several sentences, as coreference needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from headwise.annotations.annotated_text import AnnotatedText


def windows(sentences: Iterable[AnnotatedText], words: int = 110) -> list[AnnotatedText]:
    """Sentences of one document after another, joined until the next would make more than ``words``.

    A window ends where a sentence does, and holds at least one. Labels go along, with word numbers
    counted from the window's start; a label that some of its sentences lack is left empty for their words.

    >>> from headwise.annotations import Mention, Word
    >>> one = AnnotatedText("It ran", (Word("It", 0, 2), Word("ran", 3, 6)), "a:1", "a",
    ...                     mentions=(Mention("cat", 0, 1, 0),))
    >>> [joined] = windows([one, one])
    >>> joined.text, joined.mentions[1]
    ('It ran It ran', Mention(entity='cat', start=2, stop=3, head=2))
    >>> len(windows([one, one], words=3))
    2
    """
    return [
        _joined(together)
        for _, of_one in groupby(sentences, key=lambda sentence: sentence.document)
        for together in _cut(of_one, words)
    ]


def _cut(sentences: Iterable[AnnotatedText], words: int) -> Iterator[list[AnnotatedText]]:
    together: list[AnnotatedText] = []
    for sentence in sentences:
        if together and sum(len(part.words) for part in [*together, sentence]) > words:
            yield together
            together = []
        together.append(sentence)
    if together:
        yield together


def _joined(sentences: Sequence[AnnotatedText]) -> AnnotatedText:
    """The sentences as one text with single spaces between them."""
    text, before = "", 0
    words, arcs, mentions, links = [], [], [], []
    classes: list[str] = []
    segments: list[str] = []
    for sentence in sentences:
        text += " " if text else ""
        moved = len(text)
        words += [word._replace(start=word.start + moved, stop=word.stop + moved) for word in sentence.words]
        arcs += [
            arc._replace(dependent=arc.dependent + before, head=arc.head + before) for arc in sentence.arcs
        ]
        mentions += [
            mention._replace(
                start=mention.start + before, stop=mention.stop + before, head=mention.head + before
            )
            for mention in sentence.mentions
        ]
        links += [
            link._replace(query=link.query + before, keys=tuple(key + before for key in link.keys))
            for link in sentence.links
        ]
        unknown = ("",) * len(sentence.words)
        classes += sentence.parts_of_speech or unknown
        segments += sentence.segments or unknown
        text += sentence.text
        before += len(sentence.words)
    first = sentences[0]
    return AnnotatedText(
        text,
        tuple(words),
        source=first.source,
        document=first.document,
        parts_of_speech=tuple(classes) if any(classes) else (),
        arcs=tuple(arcs),
        mentions=tuple(mentions),
        links=tuple(links),
        segments=tuple(segments) if any(segments) else (),
    )
