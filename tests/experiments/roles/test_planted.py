"""On networks whose heads' roles are known the battery names exactly those heads, and no idle one."""

from types import SimpleNamespace

import numpy as np
import pytest

from headwise.experiments.roles.deciding import role_of_each
from headwise.experiments.roles.repeats import repeats
from headwise.look.roles.links import COPIES_ASKED, REPEATS
from headwise.look.roles.positions import POSITIONS
from headwise.look.roles.relations import SYNTAX
from headwise.look.roles.tokens import TOKENS_ASKED
from tests.experiments.roles.planted import (
    DUPLICATE,
    FIRST,
    INDUCTION,
    PREVIOUS,
    battery,
    counted,
    four_roles,
    grammarian,
    held,
    sentence,
    text_of,
)

VOCABULARY, LENGTH = 100, 100


class Numbers:
    """A tokenizer's face: so many tokens, the first of them special."""

    all_special_ids = (0,)

    def __len__(self):
        return VOCABULARY


@pytest.fixture(scope="module")
def four():
    random = np.random.default_rng(0)
    texts = counted([text_of(random.integers(1, 30, 24), number) for number in range(40)])
    again, fresh = repeats(SimpleNamespace(tokenizer=Numbers()), causal=True)
    probes = [(texts, [*POSITIONS, *TOKENS_ASKED], None), (again, [REPEATS, COPIES_ASKED], fresh)]
    return battery(four_roles(VOCABULARY, LENGTH), probes)


def test_planted_heads_hold_their_roles_and_no_other_head_holds_any(four):
    """A head that looks at the token before stays nearby, too: the one role that follows from another."""
    assert held(four) == {
        "previous token": [PREVIOUS],
        "nearby": [PREVIOUS],
        "first token": [FIRST],
        "same token": [DUPLICATE],
        "induction": [INDUCTION],
        "same token in a repeat": [DUPLICATE],
    }


def test_scores_are_those_of_the_circuit(four):
    """Previous and first are whole. Others lose what a token gets that occurs twice in the first copy."""
    assert four["previous token"].best.score == pytest.approx(1.0, abs=1e-6)
    assert four["first token"].best.score == pytest.approx(1.0, abs=1e-6)
    assert four["same token"].best.score == pytest.approx(1.0, abs=1e-6)
    assert 0.5 < four["induction"].best.score < 1.0
    assert four["induction"].best.control < 0.1
    assert four["induction"].verdict == "held"
    assert "next token" not in four  # a causal model sees none


def test_each_head_has_its_role(four):
    names = [f"{layer}.{head}" for layer in range(2) for head in range(4)]
    found = role_of_each(list(four.values()), names)
    assert [found[0], *found[5:]] == ["none"] * 4
    assert found[1] in {"previous token", "nearby"}
    assert found[2] == "first token"
    assert found[3] in {"same token", "same token in a repeat"}
    assert found[4] == "induction"


@pytest.fixture(scope="module")
def governors():
    return {2 * kind + 2: 2 * kind + 1 for kind in range(10)}


def syntax(distances, governors, seed=0):
    random = np.random.default_rng(seed)
    texts = counted([sentence(random, distances, number) for number in range(80)])
    circuit = grammarian(VOCABULARY, LENGTH, governors, back=2)
    return battery(circuit, [(texts, [*POSITIONS, *TOKENS_ASKED, SYNTAX], None)])


def test_a_planted_syntax_head_holds_objects_and_the_head_at_the_best_offset_does_not(governors):
    found = syntax({1: 0.2, 2: 0.4, 3: 0.2, 4: 0.2}, governors)
    assert held(found) == {
        "obj, dependent to head": ["0.1"],
        "token at -2": ["0.2"],
        "nearby": ["0.2"],
    }
    objects = found["obj, dependent to head"]
    assert objects.baseline_name == "always -2"
    assert objects.best.score == 1.0
    assert objects.best.baseline == pytest.approx(0.4, abs=0.1)  # of 160 draws, five standard errors are 0.19


def test_where_one_distance_is_nearly_always_right_it_is_called_position(governors):
    """The same head, right every time, where always -2 is right 19 times out of 20: no more than distance."""
    found = syntax({2: 0.95, 3: 0.05}, governors)
    objects = found["obj, dependent to head"]
    assert (objects.best.head, objects.best.score) == ("0.1", 1.0)
    assert not objects.heads
    assert objects.verdict == "position"
    assert held(found) == {"token at -2": ["0.2"], "nearby": ["0.2"]}
