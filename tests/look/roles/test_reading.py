"""Many questions in one pass, many texts in a batch, and calls that are no attention of a text to itself."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headwise.annotations.annotated_text import Arc
from headwise.look.roles.example import example
from headwise.look.roles.plan import plan_of
from headwise.look.roles.positions import POSITIONS, offset_question
from headwise.look.roles.reading import read_roles
from headwise.look.roles.relations import SYNTAX
from headwise.look.roles.tokens import TOKENS_ASKED
from tests.look.roles.by_hand import Written, evidence_of

MAP = [
    [0.1, 0.2, 0.3, 0.4],
    [0.5, 0.1, 0.3, 0.1],
    [0.2, 0.6, 0.1, 0.1],
    [0.0, 0.1, 0.7, 0.2],
]
MAPS = [[MAP, MAP[::-1]], [MAP[::-1], MAP], [[row[::-1] for row in MAP], MAP]]
TEXTS = [
    example("a b a ,", arcs=(Arc(3, 2, "obj"), Arc(1, 0, "obj"))),
    example("e f g h", arcs=(Arc(0, 2, "obj"),)),
    example("a c f h", arcs=(Arc(2, 1, "obj"), Arc(3, 1, "nsubj"))),
]
TEXTS = [
    replace(text, counts=torch.tensor([3, 2, 1, 3]), special=torch.arange(4) == special)
    for text, special in zip(TEXTS, (3, 2, 9), strict=True)
]


def same(one, other):
    """Whether all figures of two pieces of evidence are the same numbers."""
    names = ("counts", "offsets", "even", "nearest", "score", "control", "first_half")
    return one.role == other.role and all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)


def test_questions_asked_together_are_answered_as_if_alone():
    """Shares of weight and largest weights, of tokens and of words, by either chance."""
    questions = [*POSITIONS, *TOKENS_ASKED, SYNTAX]
    together = evidence_of(TEXTS, MAPS, *questions)
    alone = {role: found for each in questions for role, found in evidence_of(TEXTS, MAPS, each).items()}
    assert {"previous token", "rarest token", "same token", "obj, dependent to head"} < set(together)
    assert set(together) == set(alone)
    assert all(same(together[role], alone[role]) for role in alone)


def test_texts_read_together_are_answered_as_if_alone():
    """One by one and in batches of two and three, with other sinks in each."""
    questions = [*POSITIONS, *TOKENS_ASKED, SYNTAX]
    alone = evidence_of(TEXTS, MAPS, *questions)
    for at_once in (2, 3):
        found = evidence_of(TEXTS, MAPS, *questions, at_once=at_once)
        assert all(same(found[role], alone[role]) for role in alone)


def test_a_plan_reads_texts_of_one_length_together_and_no_text_that_is_not_asked():
    texts = [example("a b c"), example("a b"), example("c a b"), example("a"), example("b c a")]
    plan = plan_of(texts, [offset_question(-1)], least_texts=1)
    assert plan.batches(2) == [[0, 2], [4], [1]]


class Reader(nn.Module):
    """Looks at another sequence of two places first, and then at its own."""

    def __init__(self):
        super().__init__()
        self.other, self.own = Other(), Written([[MAP]])

    def forward(self, ids):
        self.other()
        return self.own([0])


class Other(nn.Module):
    def forward(self):
        q, k = torch.ones(1, 3, 4, 2), torch.ones(1, 3, 2, 2)
        return functional.scaled_dot_product_attention(q, k, k)


def test_attention_to_something_else_answers_nothing():
    plan = plan_of([example("a b c d")], [offset_question(-1)], least_texts=1)
    model = Reader()
    reader, _ = read_roles(model, plan, model)
    assert reader.self_attention == [1]
    (found,) = reader.evidence(lambda texts: np.ones(len(texts), dtype=bool))
    assert found.score.shape == (3, 1, 1)


def test_roles_that_are_named_are_asked_and_others_are_known():
    plan = plan_of(TEXTS, [*POSITIONS, SYNTAX], only=["syntax", "previous token"], least_texts=1)
    assert {role.name for role in plan.roles} == {
        "previous token", "obj, dependent to head", "obj, head to dependent",
        "nsubj, dependent to head", "nsubj, head to dependent",
    }  # fmt: skip
    assert {"position", "next token", "syntax"} < set(plan.known)


def test_evidence_knows_the_document_of_each_of_its_texts():
    """The text in the middle has no object, so the role does not ask it."""
    asked = {"x": (Arc(3, 1, "obj"),), "y": (), "z": (Arc(3, 1, "obj"),)}
    texts = [example("a b c d", arcs=arcs) for arcs in asked.values()]
    texts = [
        replace(text, notes=replace(text.notes, document=name))
        for text, name in zip(texts, asked, strict=True)
    ]
    found = evidence_of(texts, [torch.full((1, 4, 4), 0.25)] * 3, SYNTAX)["obj, dependent to head"]
    assert list(found.documents) == ["x", "z"]
