"""Networks whose heads' roles are known, texts in made-up languages, and what the battery says of them."""

from dataclasses import replace

import numpy as np
import torch

from headwise.annotations import AnnotatedText, Arc, Word
from headwise.experiments.roles.deciding import decided
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.plan import plan_of
from headwise.look.roles.reading import read_roles
from tests.look.circuits import SHARP, induction, uniform

HEADS = 4
PREVIOUS, FIRST, DUPLICATE, INDUCTION = "0.1", "0.2", "0.3", "1.0"


@torch.no_grad()
def four_roles(vocabulary, length):
    """0.1 previous token, 0.2 first token, 0.3 duplicate token, 1.0 induction; 0.0 and 1.1 to 1.3 idle."""
    circuit = induction(vocabulary, length, heads=HEADS)
    layer, row = circuit.layers[0], 2 * circuit.head_dim
    layer.query.weight[row, circuit.position] = SHARP * circuit.head_dim**0.5
    layer.key.weight[row, circuit.position.start] = 1.0
    circuit.match(0, 3, [(circuit.token, circuit.token, 1.0), (circuit.position, circuit.position, -1.0)])
    return circuit


@torch.no_grad()
def grammarian(vocabulary, length, governors, back):
    """0.1 looks from a token to what ``governors`` name for it, 0.2 ``back`` places back; others are idle."""
    circuit = uniform(vocabulary, length, layers=2, heads=HEADS)
    circuit.match(0, 1, [(circuit.token, circuit.token, 1.0)])
    table = torch.zeros(vocabulary, vocabulary)
    table[list(governors.values()), list(governors)] = SHARP * circuit.head_dim**0.5
    rows = slice(circuit.head_dim, circuit.head_dim + vocabulary)
    circuit.layers[0].query.weight[rows, circuit.token] = table
    circuit.look_back(0, 2, back)
    return circuit


def text_of(ids, number=0, arcs=()):
    """Tokens of a causal model, each its own word."""
    words = tuple(Word("w", 2 * place, 2 * place + 1) for place in range(len(ids)))
    notes = AnnotatedText("w " * len(ids), words, f"made up:{number}", f"made up {number}", arcs=tuple(arcs))
    ids = torch.as_tensor(ids)
    return Labelled(ids, torch.zeros(len(ids), dtype=torch.bool), torch.arange(len(ids)), notes, causal=True)


def counted(texts):
    """The texts with how often each of their tokens occurs in all of them."""
    counts = torch.bincount(torch.cat([text.ids for text in texts]))
    return [replace(text, counts=counts[text.ids]) for text in texts]


def sentence(random, distances, number, words=20, pairs=4):
    """Pairs of a governor and, so many places on, what it governs, among words that nothing links.

    Token ``2 k + 1`` governs token ``2 k + 2``, and each occurs once; tokens from 20 on are the others.
    """
    ids = random.integers(20, 40, words)
    arcs, free = [], set(range(words))
    for kind in random.permutation(10)[:pairs]:
        distance = int(random.choice(list(distances), p=list(distances.values())))
        place = int(random.choice([at for at in free if at + distance in free]))
        ids[place], ids[place + distance] = 2 * kind + 1, 2 * kind + 2
        free -= {place, place + distance}
        arcs.append(Arc(place + distance, place, "obj"))
    return text_of(ids, number, arcs)


def battery(circuit, probes):
    """The results by role, of probes of (texts, questions, control texts or none)."""
    found, evidence = {}, []
    names = [f"{layer}.{head}" for layer in range(2) for head in range(HEADS)]
    for texts, questions, controls in probes:
        of_texts = _evidence(circuit, texts, questions)
        if controls:
            others = _evidence(circuit, controls, questions)
            of_texts = [each.beside(other) for each, other in zip(of_texts, others, strict=True)]
        evidence += of_texts
    for each in evidence:
        found[each.role] = decided(each, names, "made up", roles_asked=len(evidence))
    return found


def _evidence(circuit, texts, questions):
    plan = plan_of(texts, questions)
    reader, _ = read_roles(circuit, plan, circuit)
    return list(reader.evidence(lambda numbers: np.array(numbers) % 2 == 0))


def held(results):
    """The heads that hold each role that any holds."""
    return {
        role: sorted(head.head for head in result.heads) for role, result in results.items() if result.heads
    }
