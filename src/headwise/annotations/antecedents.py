"""For each mention that takes up an earlier one: where a head that follows coreference would look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headwise.annotations.annotated_text import AnnotatedText

FEWEST = 3  # candidates; with fewer, chance is most of any score


class Anaphor(NamedTuple):
    """A mention with an earlier mention of the same entity in the text, by word numbers.

    ``word`` is its head word, ``candidates`` the head words of all mentions before it, ``antecedents``
    those of the same entity. ``other_candidates`` and ``other_antecedents`` leave out copies of the word
    itself (lower-cased), which a head finds that knows nothing of coreference; both are empty if no
    antecedent or fewer than three candidates are left.
    """

    word: int
    is_pronoun: bool
    candidates: tuple[int, ...]
    antecedents: tuple[int, ...]
    other_candidates: tuple[int, ...]
    other_antecedents: tuple[int, ...]


def antecedents(text: AnnotatedText) -> Iterator[Anaphor]:
    """The anaphors of a text with mentions, by their first word; those with under three candidates left out.

    A candidate stands before the anaphor's head word, once however many mentions it heads. Pronouns are
    told by the part of speech ``PRON`` of the head word.
    Source: Clark et al. 2019, arXiv 1906.04341, section 4.3, with every earlier mention a candidate.

    >>> from headwise.annotations import Mention, Word
    >>> words = tuple(Word(word, 2 * at, 2 * at + 1) for at, word in enumerate("abcb"))
    >>> heads = tuple(Mention(entity, at, at + 1, at) for at, entity in enumerate("1231"))
    >>> [anaphor] = antecedents(AnnotatedText("a b c b", words, "typed:1", "typed", mentions=heads))
    >>> anaphor.word, anaphor.candidates, anaphor.antecedents, anaphor.other_candidates
    (3, (0, 1, 2), (0,), ())
    """
    lowered = [word.text.lower() for word in text.words]
    entities: dict[int, set[str]] = {}
    for mention in text.mentions:
        entities.setdefault(mention.head, set()).add(mention.entity)
    for mention in text.mentions:
        word = mention.head
        candidates = tuple(sorted(head for head in entities if head < word))
        same = tuple(head for head in candidates if mention.entity in entities[head])
        if len(candidates) < FEWEST or not same:
            continue
        others = tuple(head for head in candidates if lowered[head] != lowered[word])
        other_same = tuple(head for head in same if head in others)
        if len(others) < FEWEST or not other_same:
            others, other_same = (), ()
        is_pronoun = bool(text.parts_of_speech) and text.parts_of_speech[word] == "PRON"
        yield Anaphor(word, is_pronoun, candidates, same, others, other_same)
