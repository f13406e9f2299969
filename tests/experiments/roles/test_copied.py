"""Which heads write the token they look at, on circuits of which it is known."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headwise.experiments.roles.copied import copies, copies_of
from headwise.experiments.roles.probes import Probe
from headwise.experiments.roles.repeats import repeats
from headwise.look.roles.copying import copying
from headwise.look.roles.links import COPIES, INDUCTION, REPEATS, links_of
from headwise.look.roles.mixing import output_weights
from tests.experiments.roles.batteries import role, score
from tests.experiments.roles.planted import DUPLICATE, PREVIOUS, four_roles
from tests.experiments.roles.planted import INDUCTION as INDUCES

VOCABULARY, LENGTH = 100, 100
FEW = 6


class Numbers:
    """A tokenizer's face: so many tokens, the first of them special."""

    all_special_ids = (0,)

    def __len__(self):
        return VOCABULARY


def unembedding(circuit, layer=1):
    """Logits are what heads of a layer wrote, one number for each token."""
    matrix = torch.zeros(VOCABULARY, circuit.spare.stop)
    matrix[:, circuit.wrote[layer]] = torch.eye(VOCABULARY)
    return matrix


class LlamaForCausalLM(nn.Module):
    """A circuit in the clothes of a language model: the class name, a configuration, an output embedding."""

    config = None

    def __init__(self, circuit):
        super().__init__()
        self.circuit, self.runs = circuit, 0
        self.head = nn.Linear(circuit.spare.stop, VOCABULARY, bias=False)
        self.head.weight.data = unembedding(circuit)

    def forward(self, ids):
        self.runs += len(ids)
        return self.circuit(ids)

    def get_output_embeddings(self):
        return self.head


class Encoder(LlamaForCausalLM):
    """The same, but of no class that predicts."""


@pytest.fixture
def texts():
    return repeats(SimpleNamespace(tokenizer=Numbers()), causal=True)[0][:FEW]


def asked(texts, network, *heads, name=INDUCTION, **changes):
    weights = output_weights(network, lambda: network(texts[0].ids[None]))
    network.runs = 0
    given = {"mixing": weights, "layers": 2, **changes}
    model = SimpleNamespace(name="planted", network=network)
    result = role(name, "induction", *(score(head, 0.9) for head in heads))
    return copies_of(model, result, Probe("", texts, [REPEATS]), network, **given)


def test_a_planted_induction_head_copies_and_a_previous_token_head_does_not(texts):
    """One logit is raised of 100, to 1 where the token stood once before: sqrt(99) deviations, or near it."""
    network = LlamaForCausalLM(four_roles(VOCABULARY, LENGTH))
    induction, previous = asked(texts, network, INDUCES, PREVIOUS)
    assert (induction.head, previous.head) == (INDUCES, PREVIOUS)
    assert 0.5 * 99**0.5 < induction.score <= 99**0.5 + 1e-4
    assert copies(induction)
    assert (previous.score, copies(previous)) == (0.0, False)  # it writes what no logit reads
    assert network.runs == FEW // 2  # the second half of the texts


def test_a_planted_same_token_head_copies_only_if_it_writes_the_token(texts):
    """Its links are those to the first copy of the token itself, one place before induction's."""

    def found():
        weights = output_weights(circuit, lambda: circuit(texts[0].ids[None]))
        [one] = copying(
            circuit,
            [DUPLICATE],
            texts,
            lambda text: links_of(COPIES)(text)[COPIES],
            lambda text: circuit(text.ids[None]),
            unembedding=unembedding(circuit),
            output_weights=weights,
        )
        return one

    circuit = four_roles(VOCABULARY, LENGTH)
    assert (found().score, copies(found())) == (0.0, False)
    circuit.copy(0, 3, circuit.wrote[1])
    assert found().score > 0.5 * 99**0.5
    assert copies(found())


@pytest.mark.parametrize(
    "case", ["an encoder", "another role", "no head", "a layer not found", "other width"]
)
def test_nothing_is_said_where_it_cannot_be_asked(case, texts):
    circuit = four_roles(VOCABULARY, LENGTH)
    network = Encoder(circuit) if case == "an encoder" else LlamaForCausalLM(circuit)
    if case == "other width":
        network.head = nn.Linear(7, VOCABULARY)
    heads = [] if case == "no head" else [INDUCES]
    name = COPIES if case == "another role" else INDUCTION
    assert asked(texts, network, *heads, name=name, layers=3 if case == "a layer not found" else 2) == []
    assert network.runs == 0
