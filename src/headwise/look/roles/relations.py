"""Roles of syntax: from a word to the head of its phrase, and back, for every relation of a treebank."""

from __future__ import annotations

from collections import defaultdict

import torch

from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import WORDS, Items, Question, by_distance, largest_weight, with_a_choice

_NO_SYNTAX = ("punct",)  # any head that rests on the full stop would find it from the root
UP, DOWN = "dependent to head", "head to dependent"


def relations(text: Labelled) -> dict[str, Items]:
    """Both directions of every arc but punctuation's; a relation's subtypes count as the relation.

    Clark et al. 2019, arXiv 1906.04341, section 4.2. A causal model is asked only for words that come before.
    A row that sees no word but its target is not asked, as every head is right there.

    >>> from headwise.annotations.annotated_text import Arc
    >>> from headwise.look.roles.example import example
    >>> found = relations(example("big dogs bark", arcs=(Arc(1, 2, "nsubj"),)))
    >>> {name: (items.rows.tolist(), items.targets.long().tolist()) for name, items in found.items()}
    {'nsubj, dependent to head': ([1], [[0, 0, 1]]), 'nsubj, head to dependent': ([2], [[0, 1, 0]])}
    """
    count = len(text.notes.words)
    others = text.visible(count) & ~torch.eye(count, dtype=torch.bool)
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for dependent, head, relation in text.notes.arcs:
        name = relation.split(":")[0]
        if name in _NO_SYNTAX:
            continue
        for direction, row, key in ((UP, dependent, head), (DOWN, head, dependent)):
            if others[row, key]:
                pairs[f"{name}, {direction}"].append((row, key))
    return {name: items for name, found in pairs.items() if len((items := _items(found, others)).rows)}


def _items(pairs: list[tuple[int, int]], others: torch.Tensor) -> Items:
    rows, keys = torch.tensor(pairs).unbind(1)
    targets = torch.zeros(len(rows), others.shape[1], dtype=torch.bool)
    targets[torch.arange(len(rows)), keys] = True
    return with_a_choice(Items(rows, targets, others[rows]))


SYNTAX = Question(
    "syntax",
    "Is the largest weight, between words, on the word that the tree links it with?",
    relations,
    unit=WORDS,
    measure=largest_weight,
    chance=by_distance,
    least=0.0,
)
