"""A text with labels on its words: what every reader of annotations makes, and what a role is scored on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Word(NamedTuple):
    """A word and the characters ``start`` to ``stop - 1`` of the text that it is."""

    text: str
    start: int
    stop: int


class Arc(NamedTuple):
    """One line of a dependency tree, between word numbers that count from 0; the root has none."""

    dependent: int
    head: int
    relation: str


class Mention(NamedTuple):
    """Words ``start`` to ``stop - 1``, which speak of ``entity``; the word numbered ``head`` heads them."""

    entity: str
    start: int
    stop: int
    head: int


class Link(NamedTuple):
    """A label of the user's own: word ``query`` should look at any of the words ``keys``."""

    label: str
    query: int
    keys: tuple[int, ...]


@dataclass(frozen=True)
class AnnotatedText:
    """A text, its words, and whatever is known about them; what is empty is unknown.

    ``source`` is the place it was read from, such as ``file.conllu:123``, for messages. ``document`` names
    the document it belongs to. ``parts_of_speech`` (UPOS) and ``segments`` (who speaks, or which part of
    the text) hold one entry for each word.

    >>> text = AnnotatedText("dogs bark", (Word("dogs", 0, 4), Word("bark", 5, 9)), source="typed:1",
    ...                      document="typed", arcs=(Arc(0, 1, "nsubj"),))
    >>> [text.text[word.start : word.stop] for word in text.words]
    ['dogs', 'bark']
    """

    text: str
    words: tuple[Word, ...]
    source: str
    document: str
    parts_of_speech: tuple[str, ...] = ()
    arcs: tuple[Arc, ...] = ()
    mentions: tuple[Mention, ...] = ()
    links: tuple[Link, ...] = ()
    segments: tuple[str, ...] = ()
