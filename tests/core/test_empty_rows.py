"""A query that sees no key gives exact zeros, forward and backward, whichever way the call goes."""

import pytest
import torch

from headwise.core import Causal, Documents, Explicit, Padding, SlidingWindow, attention, attention_weights
from tests.core.cases import draw
from tests.core.paths import PATHS, force_small_blocks, value_dim, with_gradients

QUERIES = KEYS = 6
NOTHING_IN_ROW_1 = Padding(torch.tensor([[False, True, True, True, False, True], [False] * KEYS]))
LEFT = Padding(torch.tensor([[False, False, False, True, True, True], [True] * KEYS]))
NOT_ITSELF = Explicit(~torch.eye(KEYS, dtype=torch.bool))
NO_QUERY_2 = Explicit((torch.arange(QUERIES) != 2)[:, None].expand(QUERIES, KEYS))

# name: the mask, and which queries of which row of the batch it leaves without keys
EMPTY = {
    "padding alone": (NOTHING_IN_ROW_1, [(1, query) for query in range(QUERIES)]),
    "left padding, causal": (LEFT & Causal(), [(0, 0), (0, 1), (0, 2)]),
    "left padding, window": (LEFT & SlidingWindow(2), [(0, 0), (0, 1), (0, 2)]),
    "explicit": (NO_QUERY_2, [(0, 2), (1, 2)]),
    "nothing in common": (
        Documents(torch.tensor([[0, 1, 0, 1, 0, 1], [0] * 6])) & NOT_ITSELF & SlidingWindow(2),
        [(0, query) for query in range(6)] + [(1, 0)],
    ),
}  # fmt: skip


def assert_zeros_at(empty, output, gradients):
    empty_rows = torch.zeros(output.shape[0], 1, output.shape[2], dtype=torch.bool)
    for row, query in empty:
        empty_rows[row, 0, query] = True
    at_empty = empty_rows.expand(output.shape[:-1])
    assert not output[at_empty].any()
    assert output[~at_empty].all(), "the other queries see something"
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][at_empty].any(), "no gradient to such a query"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_zeros_forward_and_backward(monkeypatch, path, name, small_blocks, dtype):
    if small_blocks:
        force_small_blocks(monkeypatch)
    mask, empty = EMPTY[name]
    inputs = draw(QUERIES, KEYS, value_dim=value_dim(path), dtype=dtype)
    kwargs = {"mask": mask, **PATHS[path](QUERIES, KEYS, dtype)}
    assert_zeros_at(empty, *with_gradients(attention, inputs, kwargs))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mask", [Causal(), SlidingWindow(3), Causal() & SlidingWindow(2)], ids=str)
@pytest.mark.parametrize("small_blocks", [False, True])
def test_more_queries_than_keys(monkeypatch, path, mask, small_blocks):
    """The last query stands at the last key, so the first five of nine stand before every key."""
    if small_blocks:
        force_small_blocks(monkeypatch)
    inputs = draw(9, 4, value_dim=value_dim(path))
    kwargs = {"mask": mask, **PATHS[path](9, 4, torch.float64)}
    empty = [(row, query) for row in range(2) for query in range(5)]
    assert_zeros_at(empty, *with_gradients(attention, inputs, kwargs))


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("mask", [None, Causal()])
def test_a_bias_of_minus_infinity_hides_too(as_function, softcap, mask):
    bias = torch.zeros(1, 1, QUERIES, KEYS, dtype=torch.float64)
    bias[..., 2, :] = -torch.inf
    bias[..., 4, :3] = -torch.inf
    given = (lambda q, k, rows, columns, visible: bias[:, :, rows, columns]) if as_function else bias
    kwargs = {"mask": mask, "bias": given, "softcap": softcap}
    output, gradients = with_gradients(attention, draw(QUERIES, KEYS), kwargs)
    assert_zeros_at([(0, 2), (1, 2)], output, gradients)
    if not as_function:
        assert not gradients[3][..., 2, :].any()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_keeps_them_zero(dropout):
    kwargs = {"mask": NOTHING_IN_ROW_1, "dropout": dropout}
    output, gradients = with_gradients(attention, draw(QUERIES, KEYS), kwargs)
    assert not output[1].any()
    assert all(not gradient[1].any() for gradient in gradients)


@pytest.mark.parametrize("bias", [None, torch.zeros(1, 1, QUERIES, 0, dtype=torch.float64)])
def test_no_keys_at_all(bias):
    inputs = draw(QUERIES, 0)
    output, gradients = with_gradients(attention, inputs, {"bias": bias})
    assert not output.any()
    assert all(not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", EMPTY)
def test_the_weights_of_such_a_query_are_zeros(name):
    mask, empty = EMPTY[name]
    q, k, _ = draw(QUERIES, KEYS)
    weights = attention_weights(q, k, mask=mask)
    for row, query in empty:
        assert not weights[row, :, query].any()
    assert weights.isfinite().all()


def test_the_rest_of_the_batch_does_not_notice():
    """Row 0 beside a row without keys is row 0 alone, gradients included."""
    q, k, v = draw(QUERIES, KEYS)
    output, gradients = with_gradients(attention, (q, k, v), {"mask": NOTHING_IN_ROW_1})
    alone = Padding(NOTHING_IN_ROW_1.keep[:1])
    output_alone, gradients_alone = with_gradients(attention, (q[:1], k[:1], v[:1]), {"mask": alone})
    torch.testing.assert_close(output[:1], output_alone, rtol=0.0, atol=1e-12)
    for both, one in zip(gradients, gradients_alone, strict=True):
        torch.testing.assert_close(both[:1], one, rtol=0.0, atol=1e-12)
