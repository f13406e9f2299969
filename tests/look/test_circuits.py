"""The circuits do what they are said to do, and removing a head undoes its work and no other."""

import pytest
import torch

from headwise.core import AttentionMap
from headwise.look import ablate, watch
from tests.look import circuits

# exp(-60) of up to 23 other keys, beside float32 rounding of a sum of as many weights
EXACT = 24 * torch.finfo(torch.float32).eps


@torch.no_grad()
def maps(circuit, tokens):
    found = []
    with watch(circuit, lambda call: found.append(AttentionMap(call.q, call.k, **call.score_inputs()))):
        circuit(tokens)
    return found


def test_the_previous_token_head_is_exact():
    (p,) = maps(circuits.previous_token(), torch.randint(6, (2, 12)))
    assert torch.equal(p.diagonal(-1)[:, 1], torch.ones(2, 11))
    assert not torch.allclose(p.diagonal(-1)[:, 0], torch.ones(2, 11))


def test_the_duplicate_token_head_finds_the_same_token():
    tokens = torch.tensor([[1, 2, 3, 4, 1, 3, 2, 5]])
    (p,) = maps(circuits.duplicate_token(), tokens)
    found = p.entries(torch.tensor([4, 5, 6]), torch.tensor([0, 2, 1]))[0, 1]
    torch.testing.assert_close(found, torch.ones(3), atol=EXACT, rtol=0)


def test_uniform_heads_have_the_entropy_of_their_keys():
    (p,) = maps(circuits.uniform(), torch.randint(6, (2, 12)))
    want = torch.arange(1.0, 13.0).log().expand(2, 2, 12)
    torch.testing.assert_close(p.entropy(), want, atol=EXACT, rtol=0)


def accuracy(circuit, tokens):
    """How often the token of the second copy is the one that was expected."""
    half = tokens.shape[1] // 2
    guessed = circuit.logits(tokens)[:, half + 1 : -1].argmax(-1)
    return float((guessed == tokens[:, half + 2 :]).float().mean())


def test_the_induction_circuit_looks_after_the_first_copy_and_copies():
    circuit, tokens = circuits.induction(), circuits.repeated()
    _, second = maps(circuit, tokens)
    queries = torch.arange(12, 23)
    found = second.entries(queries, queries - 10)[:, 0]
    torch.testing.assert_close(found, torch.ones(2, 11), atol=EXACT, rtol=0)
    assert accuracy(circuit, tokens) == 1.0


@pytest.mark.parametrize("head", [circuits.PREVIOUS_TOKEN, circuits.INDUCTION])
@torch.no_grad()
def test_without_either_head_nothing_is_copied(head):
    circuit, tokens = circuits.induction(), circuits.repeated(rows=20)
    with ablate(circuit, head) as coverage:
        # 11 tokens can come next: guessing is right once in 11
        assert accuracy(circuit, tokens) < 0.3
    assert coverage.changed == 1
    assert accuracy(circuit, tokens) == 1.0


@pytest.mark.parametrize("head", ["0.0", "1.1"])
@torch.no_grad()
def test_the_idle_heads_are_not_missed(head):
    circuit, tokens = circuits.induction(), circuits.repeated()
    want = circuit(tokens)
    with ablate(circuit, head):
        got = circuit(tokens)
    assert torch.equal(got[..., : circuit.spare.start], want[..., : circuit.spare.start])
    assert not torch.equal(got, want)
