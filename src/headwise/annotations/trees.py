"""Dependency trees as the columns ``HEAD`` and ``DEPREL`` give them, checked to be trees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headwise.annotations.annotated_text import Arc
from headwise.annotations.label_file import bad_line


class Attached(NamedTuple):
    """The head of one word, counted from 1 (0 for the root), its relation, and its line in the file."""

    head: int
    relation: str
    line: int


def arcs_of(words: Sequence[Attached], *, path: str | Path) -> tuple[Arc, ...]:
    """One arc for each word but the root.

    Raises HeadwiseError, with the file and line, if a head is none of the words, or if the words are not
    one tree: no root, several roots, or a circle.

    >>> arcs_of([Attached(2, "nsubj", 1), Attached(0, "root", 2)], path="a.conllu")
    (Arc(dependent=0, head=1, relation='nsubj'),)
    """
    for word in words:
        if word.head > len(words):
            got, why = str(word.head), f"The sentence has {len(words)} words, and 0 is the root"
            expected = f"from 0 to {len(words)}"
            raise bad_line(path, word.line, what="the head", expected=expected, got=got, why=why)
    roots = [word for word in words if word.head == 0]
    if len(roots) != 1:
        line = roots[1].line if roots else words[0].line
        got, why = f"{len(roots) or 'no'} words with head 0", "Every word but one hangs on another word"
        raise bad_line(path, line, what="the tree", expected="one with one root", got=got, why=why)
    _check_no_circle(words, path)
    return tuple(Arc(number, word.head - 1, word.relation) for number, word in enumerate(words) if word.head)


def _check_no_circle(words: Sequence[Attached], path: str | Path) -> None:
    rooted: set[int] = {0}
    for first in range(1, len(words) + 1):
        way: list[int] = []
        number = first
        while number not in rooted:
            if number in way:
                circle = [*way[way.index(number) :], number]
                got = "a circle of words " + " -> ".join(str(word) for word in circle)
                why, line = "From each word the heads lead to the root", words[number - 1].line
                raise bad_line(path, line, what="the tree", expected="free of circles", got=got, why=why)
            way.append(number)
            number = words[number - 1].head
        rooted.update(way)
