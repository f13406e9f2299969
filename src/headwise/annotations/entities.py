"""Mentions from the ``Entity=`` brackets of GUM and CorefUD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headwise.annotations.annotated_text import Mention
from headwise.annotations.label_file import bad_line

# a mention of one word, the start of one, the end of one; the digits within an opening are part of it
BRACKETS = re.compile(r"\(([^()]+)\)|\(([^()]+)|([^()]+)\)")
GUM_FIELDS = "GRP-etype-infstat-salience-centering-minspan-link-identity"
HEAD_FIELDS = ("minspan", "head")  # in GUM, in CorefUD: the place of the head word in the mention, from 1


class Marked(NamedTuple):
    """What the ``Entity=`` of one word says, and the line of the file it stands on; empty if it has none."""

    brackets: str
    line: int


class _Opening(NamedTuple):
    fields: list[str]
    word: int
    line: int


def mentions_of(
    words: Sequence[Marked], *, path: str | Path, fields: str = GUM_FIELDS
) -> tuple[Mention, ...]:
    """The mentions in the words of one sentence, by their first word, longer ones first.

    ``fields`` names the parts of an opening bracket, as the file's ``# global.Entity`` line does; the first
    is the entity. The head word is the first that the field ``minspan`` (or ``head``) counts out.
    Source: Universal Dependencies, the format of CorefUD and of GUM's ``Entity`` (guidelines of GUM).

    Raises HeadwiseError, with the file and line, if brackets do not pair, or a head word is not in its
    mention.

    >>> mentions_of([Marked("(12-person-new-cf1-1-2-coref", 1), Marked("12)(3-place)", 2)], path="a.conllu",
    ...             fields="GRP-etype-infstat-centering-x-minspan-link")
    (Mention(entity='12', start=0, stop=2, head=1), Mention(entity='3', start=1, stop=2, head=1))
    """
    names = fields.split("-")
    head_field = next((names.index(name) for name in HEAD_FIELDS if name in names), len(names))
    found: list[Mention] = []
    open_by_entity: dict[str, list[_Opening]] = {}
    for number, (brackets, line) in enumerate(words):
        if BRACKETS.sub("", brackets):
            raise _unpaired(path, line, repr(brackets), "Text stands outside of the brackets")
        for whole, opening, closing in BRACKETS.findall(brackets):
            if opening:
                parts = opening.split("-")
                open_by_entity.setdefault(parts[0], []).append(_Opening(parts, number, line))
                continue
            if whole:
                begun = _Opening(whole.split("-"), number, line)
            elif open_by_entity.get(closing):
                begun = open_by_entity[closing].pop()
            else:
                why = f"Entity {closing} ends here and begins nowhere in this sentence"
                raise _unpaired(path, line, repr(brackets), why)
            found.append(_mention(begun, number, head_field, path))
    for entity, left in open_by_entity.items():
        if left:
            got = f"({'-'.join(left[-1].fields)}"
            why = f"Entity {entity} begins here and ends nowhere in this sentence"
            raise _unpaired(path, left[-1].line, repr(got), why)
    return tuple(sorted(found, key=lambda mention: (mention.start, -mention.stop)))


def _mention(begun: _Opening, last: int, head_field: int, path: str | Path) -> Mention:
    length = last - begun.word + 1
    place = begun.fields[head_field].split(",")[0] if head_field < len(begun.fields) else str(length)
    if not place.isdecimal() or not 1 <= int(place) <= length:
        raise bad_line(
            path,
            begun.line,
            what=f"the head word of entity {begun.fields[0]}",
            expected=f"from 1 to {length}, a word of the mention",
            got=repr(place),
            why="It counts the words of the mention from 1",
        )
    return Mention(begun.fields[0], begun.word, last + 1, begun.word + int(place) - 1)


def _unpaired(path: str | Path, line: int, got: str, why: str) -> Exception:
    expected = "brackets that pair within a sentence"
    return bad_line(path, line, what="Entity", expected=expected, got=got, why=why)
