"""Mentions from the ``Entity=`` brackets of GUM and CorefUD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from headwise.annotations.annotated_text import Mention
from headwise.annotations.label_file import bad_line

# a mention of one word, the start of one, the end of one; the digits within an opening are part of it
BRACKETS = re.compile(r"\(([^()]+)\)|\(([^()]+)|([^()]+)\)")
PART = re.compile(r"(.+)\[(\d+)/(\d+)\]")  # of a mention with a gap: e1[1/2] and, further on, e1[2/2]
GUM_FIELDS = "GRP-etype-infstat-salience-centering-minspan-link-identity"
HEAD_FIELDS = ("head", "minspan")  # in CorefUD, in GUM: the place of the head word in the mention, from 1


class Marked(NamedTuple):
    """What the ``Entity=`` of one word says, and the line of the file it stands on; empty if it has none.

    ``empty`` marks an empty node: mentions count it, though the text has no word for it.
    """

    brackets: str
    line: int
    empty: bool = False


class _Spoken(NamedTuple):
    """A mention or the part of one: its bracket's fields, the nodes that it spans, its line in the file."""

    fields: list[str]
    nodes: list[int]
    line: int


def mentions_of(
    words: Sequence[Marked], *, path: str | Path, fields: str = GUM_FIELDS
) -> tuple[Mention, ...]:
    """The mentions in the words of one sentence, by their first word, longer ones first.

    ``fields`` names the parts of an opening bracket, as the file's ``# global.Entity`` line does; the first
    is the entity. The head word is the first that the field ``head`` (or ``minspan``) counts out, empty
    nodes counted; where that is an empty node, or nothing is said, it is the mention's last word. The parts
    of a mention with a gap (``e1[1/2]``, ``e1[2/2]``) are one mention, from its first word to its last,
    whose head is counted over the parts alone. A mention of empty nodes alone (a zero) is left out.
    Source: Universal Dependencies, the format of CorefUD 1.0 and of GUM's ``Entity`` (guidelines of GUM).

    Raises HeadwiseError, with the file and line, if brackets do not pair, if a part of a mention is missing,
    or if a head word is not in its mention.

    >>> mentions_of([Marked("(12-person-new-cf1-1-2-coref", 1), Marked("12)(3-place)", 2)], path="a.conllu",
    ...             fields="GRP-etype-infstat-centering-x-minspan-link")
    (Mention(entity='12', start=0, stop=2, head=1), Mention(entity='3', start=1, stop=2, head=1))
    >>> apart = [Marked("(e1[1/2]-person-1)", 1), Marked("", 2), Marked("(e1[2/2]-person-1)", 3)]
    >>> mentions_of(apart, path="a.conllu", fields="eid-etype-head")
    (Mention(entity='e1', start=0, stop=3, head=0),)
    """
    names = fields.split("-")
    head_field = next((names.index(name) for name in HEAD_FIELDS if name in names), len(names))
    numbers = list(accumulate((not word.empty for word in words), initial=0))  # words before each node
    found = []
    for spoken in _whole(_bracketed(words, path), path):
        if written := [node for node in spoken.nodes if not words[node].empty]:
            head = _head(spoken, written, head_field, path)
            start, stop = numbers[written[0]], numbers[written[-1]] + 1
            found.append(Mention(spoken.fields[0], start, stop, numbers[head]))
    return tuple(sorted(found, key=lambda mention: (mention.start, -mention.stop)))


def _bracketed(words: Sequence[Marked], path: str | Path) -> list[_Spoken]:
    """What stands between brackets that pair, in the order of their closing."""
    found: list[_Spoken] = []
    open_by_entity: dict[str, list[_Spoken]] = {}
    for number, (brackets, line, _) in enumerate(words):
        if BRACKETS.sub("", brackets):
            raise _unpaired(path, line, repr(brackets), "Text stands outside of the brackets")
        for whole, opening, closing in BRACKETS.findall(brackets):
            if opening or whole:
                begun = _Spoken((opening or whole).split("-"), [number], line)
                if opening:
                    open_by_entity.setdefault(begun.fields[0], []).append(begun)
                    continue
            elif open_by_entity.get(closing):
                begun = open_by_entity[closing].pop()
            else:
                why = f"Entity {closing} ends here and begins nowhere in this sentence"
                raise _unpaired(path, line, repr(brackets), why)
            found.append(begun._replace(nodes=list(range(begun.nodes[0], number + 1))))
    for entity, left in open_by_entity.items():
        if left:
            why = f"Entity {entity} begins here and ends nowhere in this sentence"
            raise _unpaired(path, left[-1].line, _opening(left[-1]), why)
    return found


def _whole(found: Sequence[_Spoken], path: str | Path) -> list[_Spoken]:
    """Mentions, those in parts joined: the fields are those of the first part."""
    mentions: list[_Spoken] = []
    waiting: list[tuple[_Spoken, str, int, int]] = []  # the parts so far, the entity, how many of how many
    for one in sorted(found, key=lambda one: (one.nodes[0], -len(one.nodes))):
        match = PART.fullmatch(one.fields[0])
        if match is None:
            mentions.append(one)
            continue
        entity, number, of = match[1], int(match[2]), int(match[3])
        before = [each for each in waiting if each[1:] == (entity, number - 1, of)]
        if not (number == 1 or before) or number > of:
            raise _parted(path, one, f"Part {number} of {of} does not follow a part {number - 1}")
        joined = one._replace(fields=[entity, *one.fields[1:]])
        if before:
            waiting.remove(before[-1])
            first = before[-1][0]
            joined = first._replace(nodes=sorted({*first.nodes, *one.nodes}))
        if number == of:
            mentions.append(joined)
        else:
            waiting.append((joined, entity, number, of))
    if waiting:
        one, _, number, of = waiting[-1]
        raise _parted(path, one, f"Part {number + 1} of {of} stands nowhere in this sentence")
    return mentions


def _head(spoken: _Spoken, written: Sequence[int], head_field: int, path: str | Path) -> int:
    """The node that is said to be the head, or else the last one that is a word."""
    place = spoken.fields[head_field].split(",")[0] if head_field < len(spoken.fields) else ""
    if not place:
        return written[-1]
    length = len(spoken.nodes)
    if not place.isdecimal() or not 1 <= int(place) <= length:
        raise bad_line(
            path,
            spoken.line,
            what=f"the head word of entity {spoken.fields[0]}",
            expected=f"from 1 to {length}, a word of the mention",
            got=repr(place),
            why="It counts the words and empty nodes of the mention from 1",
        )
    head = spoken.nodes[int(place) - 1]
    return head if head in written else written[-1]


def _opening(spoken: _Spoken) -> str:
    return repr(f"({'-'.join(spoken.fields)}")


def _unpaired(path: str | Path, line: int, got: str, why: str) -> Exception:
    expected = "brackets that pair within a sentence"
    return bad_line(path, line, what="Entity", expected=expected, got=got, why=why)


def _parted(path: str | Path, spoken: _Spoken, why: str) -> Exception:
    expected = "all parts of a mention, in order, within a sentence"
    return bad_line(path, spoken.line, what="Entity", expected=expected, got=_opening(spoken), why=why)
