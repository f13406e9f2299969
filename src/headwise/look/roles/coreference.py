"""Roles of coreference: from a mention to an earlier one of the same entity."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from headwise.annotations.antecedents import Anaphor, antecedents
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import WORDS, Items, Question, largest_weight

PRONOUNS = "pronoun to antecedent"
PRONOUNS_OTHER_WORD = "pronoun to antecedent, another word"
MENTIONS_OTHER_WORD = "mention to antecedent, another word"


def coreference(text: Labelled) -> dict[str, Items]:
    """From head words of mentions to those of earlier ones; copies of the word itself are left out apart.

    Clark et al. 2019, arXiv 1906.04341, section 4.3. A head that looks for the same word again scores well
    where antecedents are the same word, without knowing of entities.

    >>> from headwise.annotations.annotated_text import Mention
    >>> from headwise.look.roles.example import example
    >>> mentions = [Mention(entity, at, at + 1, at) for at, entity in enumerate("1231")]
    >>> text = example("a b c it", mentions=tuple(mentions), parts_of_speech=("NOUN", "NOUN", "NOUN", "PRON"))
    >>> coreference(text)["pronoun to antecedent"].targets.long()
    tensor([[1, 0, 0, 0]])
    """
    found = list(antecedents(text.notes))
    pronouns = [one for one in found if one.is_pronoun]

    def all_words(one: Anaphor) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return one.antecedents, one.candidates

    def other_words(one: Anaphor) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return one.other_antecedents, one.other_candidates

    count = len(text.notes.words)
    return {
        PRONOUNS: _items(pronouns, all_words, count),
        PRONOUNS_OTHER_WORD: _items(pronouns, other_words, count),
        MENTIONS_OTHER_WORD: _items(found, other_words, count),
    }


def _items(
    anaphors: Iterable[Anaphor],
    keys_of: Callable[[Anaphor], tuple[tuple[int, ...], tuple[int, ...]]],
    count: int,
) -> Items:
    asked = [(one.word, *keys_of(one)) for one in anaphors if keys_of(one)[0]]
    targets, candidates = torch.zeros(2, len(asked), count, dtype=torch.bool)
    for place, (_, right, possible) in enumerate(asked):
        targets[place, list(right)] = True
        candidates[place, list(possible)] = True
    return Items(torch.tensor([word for word, _, _ in asked], dtype=torch.long), targets, candidates)


COREFERENCE = Question(
    "coreference",
    "Is the largest weight, among earlier mentions, on one of the same entity?",
    coreference,
    unit=WORDS,
    measure=largest_weight,
    least=0.0,
)
