"""Words that a tokenizer does not keep apart, made one, so that every word has a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwise.annotations.alignment import owners_of, words_without_token
from headwise.annotations.annotated_text import AnnotatedText, Word
from headwise.errors import HeadwiseError


def words_with_tokens(spans: Sequence[tuple[int, int]], text: AnnotatedText) -> AnnotatedText:
    """The text with words that have no token made one with the neighbour whose token covers them.

    ``spans`` are the tokens' characters, as ``words_of_tokens`` takes them. A word that no token covers, such
    as a lone control character, is no word any more. Labels go along with their words. A merged word has a
    segment, and a part of speech, if all its parts have the same.

    Raises HeadwiseError, with the text's source, if one token would have to stand for two labelled words, or
    if a labelled word has no token.

    >>> words = Word("Stop", 0, 4), Word(".", 4, 5), Word('"', 5, 6)
    >>> text = AnnotatedText('Stop."', words, "typed:1", "typed")
    >>> [word.text for word in words_with_tokens([(0, 4), (4, 6)], text).words]
    ['Stop', '."']
    """
    owners = owners_of(spans, text)
    lost = words_without_token(owners, text)
    if not lost:
        return text
    labelled = _labelled(text)
    groups = [[number] for number in range(len(text.words))]
    for word in lost:
        neighbour = _covering(word, owners, spans, text)
        if neighbour is None:
            if word not in labelled:
                groups[word] = []  # if it is, words_of_tokens says that it has no token
            continue
        together = sorted({number for at in _between(word, neighbour) for number in groups[at]})
        _check_one_label([number for number in together if number in labelled], text)
        for number in together:
            groups[number] = together
    if all(group == [number] for number, group in enumerate(groups)):
        return text
    return words_with_tokens(spans, _rebuilt(text, groups))


def _between(one: int, other: int) -> range:
    return range(min(one, other), max(one, other) + 1)


def _labelled(text: AnnotatedText) -> set[int]:
    """The words that a label speaks of."""
    return {
        *(number for arc in text.arcs for number in (arc.dependent, arc.head)),
        *(mention.head for mention in text.mentions),
        *(number for link in text.links for number in (link.query, *link.keys)),
    }


def _covering(
    number: int, owners: Sequence[int], spans: Sequence[tuple[int, int]], text: AnnotatedText
) -> int | None:
    """The word whose token covers some of this one."""
    word = text.words[number]
    for owner, (start, stop) in zip(owners, spans, strict=True):
        if owner >= 0 and start < word.stop and stop > word.start:
            return owner
    return None


def _check_one_label(labelled: Sequence[int], text: AnnotatedText) -> None:
    if len(labelled) > 1:
        one, other = (text.words[number].text for number in labelled[:2])
        raise HeadwiseError(
            who=text.source,
            what="a token",
            expected="of one labelled word",
            got=f"one that covers both {one!r} and {other!r}",
            why="The tokenizer does not keep them apart, and labels speak of each alone",
            do="Label one span around both, or leave this text out",
        )


def _rebuilt(text: AnnotatedText, groups: Sequence[Sequence[int]]) -> AnnotatedText:
    kept = [group for number, group in enumerate(groups) if group and group[0] == number]
    new = {number: place for place, group in enumerate(kept) for number in group}
    mentions = []
    for mention in text.mentions:
        places = [new[number] for number in range(mention.start, mention.stop) if number in new]
        mentions.append(mention._replace(start=places[0], stop=places[-1] + 1, head=new[mention.head]))
    return replace(
        text,
        words=tuple(_joined(text, group) for group in kept),
        arcs=tuple(arc._replace(dependent=new[arc.dependent], head=new[arc.head]) for arc in text.arcs),
        mentions=tuple(mentions),
        links=tuple(
            link._replace(query=new[link.query], keys=tuple(new[key] for key in link.keys))
            for link in text.links
        ),
        parts_of_speech=_of_all(text.parts_of_speech, kept),
        segments=_of_all(text.segments, kept),
    )


def _joined(text: AnnotatedText, group: Sequence[int]) -> Word:
    start, stop = text.words[group[0]].start, text.words[group[-1]].stop
    return Word(text.text[start:stop], start, stop)


def _of_all(notes: Sequence[str], kept: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """What all the words of a group have, and nothing where they differ."""
    if not notes:
        return ()
    found = [{notes[number] for number in group} for group in kept]
    return tuple(each.pop() if len(each) == 1 else "" for each in found)
