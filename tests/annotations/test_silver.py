"""Trees by spaCy, through a stand-in with the attributes that are read of it."""

import sys
from types import SimpleNamespace

import pytest

from headwise.annotations import Arc, silver_trees


class Token(SimpleNamespace):
    def __len__(self):
        return len(self.text)


class Document(list):
    sents: list
    trees: bool = True

    def has_annotation(self, name):
        return self.trees and name == "DEP"


def parsed(text):
    """The tokens of "I can't\n go. Ok" as spaCy makes them: the line's end is a token of its own."""
    forms = ["I", "ca", "n't", "\n", "go", ".", "Ok"]
    heads = [4, 4, 4, 2, 4, 4, 6]
    relations = ["nsubj", "aux", "neg", "dep", "ROOT", "punct", "ROOT"]
    tokens, at = [], 0
    for number, (form, relation) in enumerate(zip(forms, relations, strict=True)):
        at = text.index(form, at)
        tokens.append(Token(i=number, text=form, idx=at, dep_=relation, pos_="X", is_space=form.isspace()))
        at += len(form)
    for token, head in zip(tokens, heads, strict=True):
        token.head = tokens[head]
    document = Document(tokens)
    document.sents = [tokens[:6], tokens[6:]]
    return document


@pytest.fixture
def spacy(monkeypatch):
    stand_in = SimpleNamespace(load=lambda name: parsed)
    monkeypatch.setitem(sys.modules, "spacy", stand_in)
    return stand_in


def test_trees_by_hand(spacy):
    first, second = silver_trees("I can't\n go. Ok", "en_core_web_sm", source="plain.txt")
    assert first.text == "I ca n't go."
    assert [first.text[word.start : word.stop] for word in first.words] == ["I", "ca", "n't", "go", "."]
    assert first.arcs == (Arc(0, 3, "nsubj"), Arc(1, 3, "aux"), Arc(2, 3, "neg"), Arc(4, 3, "punct"))
    assert first.parts_of_speech == ("X",) * 5
    assert (second.text, second.arcs, second.source) == ("Ok", (), "plain.txt:2")
