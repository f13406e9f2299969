"""Roles that a text spells out itself: this word should look at those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch

from headwise.annotations.annotated_text import Link
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import (
    WORDS,
    Items,
    Question,
    largest_weight,
    with_a_choice,
)

MEANING, INDUCTION, COPIES = "meaning", "induction", "same token in a repeat"


def links_of(*labels: str) -> Callable[[Labelled], dict[str, Items]]:
    """The links of some labels, or of all: from a word to any of its keys, its own place left out.

    A word that sees nothing but its keys is not asked, as every head is right there.

    >>> from headwise.look.roles.example import example
    >>> text = example("a b c", links=(Link("mine", 2, (0,)), Link("other", 1, (0,))))
    >>> {name: items.rows.tolist() for name, items in links_of("mine")(text).items()}
    {'mine': [2]}
    """

    def find(text: Labelled) -> dict[str, Items]:
        count = len(text.notes.words)
        others = text.visible(count) & ~torch.eye(count, dtype=torch.bool)
        by_label: dict[str, list[Link]] = defaultdict(list)
        for link in text.notes.links:
            if (not labels or link.label in labels) and bool(others[link.query, list(link.keys)].any()):
                by_label[link.label].append(link)
        return {
            label: items for label, found in by_label.items() if len((items := _items(found, others)).rows)
        }

    return find


def _items(links: Sequence[Link], others: torch.Tensor) -> Items:
    rows = torch.tensor([link.query for link in links])
    targets = torch.zeros(len(links), others.shape[1], dtype=torch.bool)
    for place, link in enumerate(links):
        targets[place, list(link.keys)] = True
    return with_a_choice(Items(rows, targets & others[rows], others[rows]))


MEANING_ASKED = Question(
    "meaning",
    "How much more weight goes from a word of two senses to the cue than to a control word in its place?",
    links_of(MEANING),
    unit=WORDS,
    least=0.1,
    margin=0.1,
    offsets=False,
)
REPEATS = Question(
    "induction",
    "On a repeat of random tokens, how much weight goes to what came after the token last time?",
    links_of(INDUCTION),
    unit=WORDS,
    offsets=False,
)
COPIES_ASKED = Question(
    "induction",
    "On a repeat of random tokens, how much weight goes to the token's first copy?",
    links_of(COPIES),
    unit=WORDS,
    offsets=False,
)
OWN_LABELS = Question(
    "labels",
    "Is the largest weight, between words, on a word that the label names?",
    links_of(),
    unit=WORDS,
    measure=largest_weight,
    least=0.0,
)
