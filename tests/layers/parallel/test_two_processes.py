"""Two processes on a CPU give the outputs and the gradients of one."""

import pytest
import torch

from tests.layers.parallel import over_heads, over_the_sequence
from tests.layers.parallel.ranks import in_two_processes

# sums of at most 24 products, cut in two: some hundred roundings of the largest number of a result
BOUND = 256 * torch.finfo(torch.float64).eps


@pytest.fixture(scope="module")
def ranks():
    """What each rank found; the processes start once for all tests."""
    return in_two_processes(work)


def work(mesh):
    return {
        "layers": {name: over_heads.passed(name, mesh) for name in over_heads.LAYERS},
        "mlp": over_heads.passed_mlp(mesh),
        "held": over_heads.held(mesh),
        "chunks": {name: over_the_sequence.passed(name, mesh) for name in over_the_sequence.CASES},
        "chunk of padding": over_the_sequence.passed("causal and left padding", mesh, chunk_of_padding=True),
        "map": over_the_sequence.passed_with_weights(mesh),
    }


def assert_same(found, expected):
    largest = max(
        tensor.abs().max() for tensor in expected.values()
    )  # some gradients are zero but for rounding
    assert found.keys() == expected.keys()
    errors = {what: float((found[what] - expected[what]).abs().max() / largest) for what in expected}
    assert max(errors.values()) < BOUND, errors


@pytest.mark.parametrize("name", over_heads.LAYERS)
def test_a_layer_split_over_heads_is_the_layer(ranks, name):
    for rank, found in enumerate(ranks):
        expected = over_heads.passed(name)
        for what, axis in over_heads.HELD_BY_RANKS.items():  # a rank has the gradient of its own heads
            if what in expected and not (what == "position.table" and name.startswith("learned")):
                expected[what] = expected[what].chunk(len(ranks), axis)[rank]
        assert_same(found["layers"][name], expected)


def test_an_mlp_split_in_the_middle_is_the_mlp(ranks):
    for found in ranks:
        assert_same(found["mlp"], over_heads.passed_mlp())


def test_each_rank_holds_half(ranks):
    assert [found["held"] for found in ranks] == [[2, 1, 8], [2, 1, 8]]


def assert_same_in_chunks(found, expected):
    joined = {what: torch.cat([one[what] for one in found], dim=1) for what in ("output", "x")}
    assert_same(joined, {what: expected[what] for what in joined})
    added = {what: sum(one["weights"][what] for one in found) for what in expected["weights"]}
    assert_same(added, expected["weights"])


@pytest.mark.parametrize("name", over_the_sequence.CASES)
def test_a_sequence_in_chunks_is_the_sequence(ranks, name):
    assert_same_in_chunks([found["chunks"][name] for found in ranks], over_the_sequence.passed(name))


def test_padding_may_be_given_for_the_chunk_and_is_counted_through_all(ranks):
    expected = over_the_sequence.passed("causal and left padding")
    assert_same_in_chunks([found["chunk of padding"] for found in ranks], expected)


def test_the_weights_of_a_chunk_are_its_rows_of_the_map(ranks):
    rows = torch.cat([found["map"] for found in ranks], dim=2)
    assert_same({"map": rows}, {"map": over_the_sequence.passed_with_weights()})
