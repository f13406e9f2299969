"""Copying by the output, on the induction circuit, whose logits are one-hot: answers worked out by hand."""

import pytest
import torch

from headwise.annotations import AnnotatedText, Link, Word
from headwise.core import HeadwiseError
from headwise.look.roles.copying import copying
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.links import INDUCTION, links_of
from headwise.look.roles.mixing import output_weights
from tests.look import circuits

VOCABULARY = 12
# float32 means and deviations of 12 logits, where the head's own weights are exact to exp(-60)
EXACT = 64 * torch.finfo(torch.float32).eps


def texts():
    """A start token, 11 tokens and the same 11 again: the second copy asks, but for its last token."""
    torch.manual_seed(0)
    found = []
    for ids in circuits.repeated(rows=4):
        count = len(ids)
        words = tuple(Word("?", place, place + 1) for place in range(count))
        links = tuple(Link(INDUCTION, row, (row - 10,)) for row in range(12, count - 1))
        notes = AnnotatedText("?" * count, words, "made up", "made up", links=links)
        found.append(
            Labelled(ids, torch.zeros(count, dtype=torch.bool), torch.arange(count), notes, causal=True)
        )
    return found


def copied(heads, circuit=None, **changes):
    circuit = circuit or circuits.induction()
    asked = texts()

    def run(text):
        return circuit(text.ids[None])

    unembedding = torch.zeros(VOCABULARY, circuit.spare.stop)
    unembedding[:, circuit.wrote[1]] = torch.eye(VOCABULARY)
    given = {
        "unembedding": unembedding,
        "output_weights": output_weights(circuit, lambda: run(asked[0])),
        **changes,
    }
    return copying(circuit, heads, asked, lambda text: links_of(INDUCTION)(text)[INDUCTION], run, **given)


def test_the_induction_head_copies_and_others_write_nothing_that_is_read():
    """One logit is 1 and eleven are 0: the mean is 1/12, the deviation sqrt(11)/12. So the right one is
    sqrt(11) deviations above, any other 1/sqrt(11) below, and eleven of twelve are lower.
    """
    induction, idle, previous = copied(["1.0", "1.1", "0.1"])
    assert induction.head == "1.0"
    assert induction.score == pytest.approx(11**0.5, abs=EXACT)
    assert induction.error == pytest.approx(0.0, abs=EXACT)
    assert induction.null == pytest.approx(-(11**-0.5), abs=EXACT)
    assert induction.rank == pytest.approx(11 / 12, abs=EXACT)
    for head in (idle, previous):
        assert (head.score, head.null, head.rank) == (0.0, 0.0, 0.0)


def test_a_head_that_writes_against_the_token_lowers_it():
    """The logit of the token looked at is -1 and the others 0: it is the lowest of all."""
    circuit = circuits.induction()
    with torch.no_grad():
        circuit.layers[1].output.weight.neg_()
    (found,) = copied(["1.0"], circuit)
    assert found.score == pytest.approx(-(11**0.5), abs=EXACT)
    assert found.null == pytest.approx(11**-0.5, abs=EXACT)
    assert found.rank == 0.0


def test_a_head_that_copies_another_token_than_it_should_look_at():
    """The token before is copied instead: the right one is like any that is not copied."""
    circuit = circuits.previous_token(VOCABULARY, 24, layers=2)
    circuit.copy(0, 1, circuit.wrote[1])
    (found,) = copied(["0.1"], circuit)
    assert found.score == pytest.approx(-(11**-0.5), abs=EXACT)


def test_other_tokens_are_never_the_right_one():
    """Whatever the seed."""
    for seed in range(5):
        (found,) = copied(["1.0"], seed=seed)
        assert found.null == pytest.approx(-(11**-0.5), abs=EXACT)


def test_the_error_has_texts_as_units():
    """Two texts of four have one row, whose head writes against the token: -s, -s, s and s with s = sqrt(11).

    Their deviation is s sqrt(4 / 3), and a half of that is the error; rows count alike in the mean itself.
    """
    circuit = circuits.induction()
    signs = iter([-1.0, -1.0, 1.0, 1.0])
    asked = texts()
    weights = output_weights(circuit, lambda: circuit(asked[0].ids[None]))
    unembedding = torch.zeros(VOCABULARY, circuit.spare.stop)

    def run(text):
        unembedding[:, circuit.wrote[1]] = next(signs) * torch.eye(VOCABULARY)
        circuit(text.ids[None])

    def some(text):
        items = links_of(INDUCTION)(text)[INDUCTION]
        return items.at(slice(0, 1)) if any(text is one for one in asked[:2]) else items

    (found,) = copying(circuit, ["1.0"], asked, some, run, unembedding=unembedding, output_weights=weights)
    assert found.error == pytest.approx(11**0.5 * (4 / 3) ** 0.5 / 2, abs=EXACT)
    assert found.score == pytest.approx(11**0.5 * (-1 - 1 + 10 + 10) / 22, abs=EXACT)


def test_without_what_mixes_the_heads_it_is_refused():
    with pytest.raises(
        HeadwiseError, match=r"copying: what mixes the heads of layer 'layers\.1' must be a linear"
    ):
        copied(["1.0"], output_weights={})


def test_a_head_that_is_not_there_is_refused():
    with pytest.raises(HeadwiseError, match="head"):
        copied(["1.7"])
    with pytest.raises(HeadwiseError, match="layer"):
        copied(["5.0"])
