"""Many small blocks give what one large block gives, forward and backward."""

import pytest
import torch

from headwise.core import Causal, HeadwiseError, SlidingWindow, attention, blocks
from tests.core.cases import MASKS, draw, make_mask
from tests.core.paths import PATHS, distance_bias, force_small_blocks, value_dim, with_gradients

# The blocks do the same float64 sums of about 10 terms, perhaps in another order.
EXACT = {"rtol": 0.0, "atol": 1e-12}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(6, 6), (2, 6), (9, 4)])
def test_blocks_equal_one_block(monkeypatch, path, name, queries, keys):
    mask, _ = make_mask(name, queries, keys)
    inputs = draw(queries, keys, value_dim=value_dim(path))
    kwargs = {"mask": mask, **PATHS[path](queries, keys, torch.float64)}
    output, gradients = with_gradients(attention, inputs, kwargs)
    force_small_blocks(monkeypatch)
    cut_output, cut_gradients = with_gradients(attention, inputs, kwargs)
    torch.testing.assert_close(cut_output, output, **EXACT)
    for cut, whole in zip(cut_gradients, gradients, strict=True):
        torch.testing.assert_close(cut, whole, **EXACT)


def blocks_of(queries, keys, mask, matrices=1):
    q, k = torch.empty(1, 1, queries, 4), torch.empty(1, 1, keys, 4)
    made = blocks._blocks(q, k, blocks.Scores(mask, None, 1.0, None), matrices)
    return [(b.rows.start, b.rows.stop, b.columns.start, b.columns.stop) for b in made]


def test_blocks_cover_every_query_once(monkeypatch):
    force_small_blocks(monkeypatch, rows=3)
    assert blocks_of(7, 7, None) == [(0, 3, 0, 7), (3, 6, 0, 7), (6, 7, 0, 7)]


def test_blocks_read_only_the_keys_within_reach(monkeypatch):
    """A window of 2 over a long sequence costs length * window, not length squared."""
    force_small_blocks(monkeypatch, rows=3)
    assert blocks_of(7, 7, Causal()) == [(0, 3, 0, 3), (3, 6, 0, 6), (6, 7, 0, 7)]
    assert blocks_of(7, 7, SlidingWindow(2)) == [(0, 3, 0, 3), (3, 6, 2, 6), (6, 7, 5, 7)]
    assert blocks_of(5, 2, SlidingWindow(2)) == [(0, 3, 0, 0), (3, 5, 0, 2)]


def test_a_block_shrinks_as_the_score_matrices_grow():
    """512 rows at most; never more than 2^24 scores, until 16 rows are left."""
    assert blocks_of(2048, 2048, None)[0][1] == 512
    assert blocks_of(32768, 32768, None, matrices=8)[0][1] == 64
    assert blocks_of(64, 2**24, None, matrices=8)[0][1] == 16


def test_a_bias_function_is_asked_for_small_blocks_only(monkeypatch):
    force_small_blocks(monkeypatch)
    asked = []

    def bias(q, k, rows, columns, visible):
        asked.append((rows.start, rows.stop, columns.start, columns.stop))
        return distance_bias(q, k, rows, columns, visible)

    attention(*draw(6, 6), mask=SlidingWindow(2), bias=bias)
    assert asked == [(0, 2, 0, 2), (2, 4, 1, 4), (4, 6, 3, 6)]


@pytest.mark.parametrize("shape", [(6, 6), (4, 6, 6), (1, 3, 6, 6), (1, 4, 6, 1)])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_a_bias_function_that_returns_another_shape_is_refused(shape, softcap):
    def bias(q, k, rows, columns, visible):
        return torch.zeros(shape)

    with pytest.raises(HeadwiseError, match="what the bias function returns must be"):
        attention(*draw(6, 6), bias=bias, softcap=softcap)
