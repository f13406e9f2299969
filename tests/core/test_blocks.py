"""Many small blocks give what one large block gives, forward and backward."""

import pytest
import torch

from headwise.core import Causal, HeadwiseError, SlidingWindow, attention
from headwise.core.block import Block, Cut, cut_up
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


@pytest.mark.parametrize("path", PATHS)
def test_blocks_that_are_kept_equal_one_block(monkeypatch, path):
    inputs = draw(6, 6, value_dim=value_dim(path))
    kwargs = {"mask": SlidingWindow(3), **PATHS[path](6, 6, torch.float64)}
    output, gradients = with_gradients(attention, inputs, kwargs)
    force_small_blocks(monkeypatch, kept=2**24)
    cut_output, cut_gradients = with_gradients(attention, inputs, kwargs)
    torch.testing.assert_close(cut_output, output, **EXACT)
    for cut, whole in zip(cut_gradients, gradients, strict=True):
        torch.testing.assert_close(cut, whole, **EXACT)


def blocks_of(queries, keys, mask, most=2**21):
    q, k = torch.empty(1, 1, queries, 4, device="meta"), torch.empty(1, 1, keys, 4, device="meta")
    whole = Cut(q, k, k, Block((0, queries), (0, keys), keys - queries))
    cuts = list(cut_up(whole, mask, most))
    for cut in cuts:
        rows, columns = cut.block.rows, cut.block.columns
        assert cut.q.shape[2] == rows.stop - rows.start
        assert cut.k.shape[2] == cut.v.shape[2] == columns.stop - columns.start
    return [
        (c.block.rows.start, c.block.rows.stop, c.block.columns.start, c.block.columns.stop) for c in cuts
    ]


def test_blocks_cover_every_query_once(monkeypatch):
    force_small_blocks(monkeypatch, rows=3)
    assert blocks_of(7, 7, None) == [(0, 2, 0, 7), (2, 4, 0, 7), (4, 7, 0, 7)]


def test_blocks_read_only_the_keys_within_reach(monkeypatch):
    """A window of 2 over a long sequence costs length * window, not length squared."""
    force_small_blocks(monkeypatch, rows=3)
    assert blocks_of(7, 7, Causal()) == [(0, 2, 0, 2), (2, 4, 0, 4), (4, 7, 0, 7)]
    assert blocks_of(7, 7, SlidingWindow(2)) == [(0, 2, 0, 2), (2, 4, 1, 4), (4, 7, 3, 7)]
    assert blocks_of(5, 2, SlidingWindow(2)) == [(0, 3, 0, 0), (3, 5, 0, 2)]


def test_a_block_shrinks_as_the_score_matrices_grow():
    """512 rows at most; never more scores than allowed, until 16 rows are left."""
    assert blocks_of(2048, 2048, None)[0][1] == 512
    assert blocks_of(32768, 32768, None)[0][1] == 64
    assert blocks_of(64, 2**24, None)[0][1] == 16


def test_a_bias_function_is_asked_for_small_blocks_only(monkeypatch):
    force_small_blocks(monkeypatch)
    asked = []

    def bias(q, k, rows, columns, visible):
        asked.append((rows.start, rows.stop, columns.start, columns.stop))
        return distance_bias(q, k, rows, columns, visible)

    attention(*draw(6, 6), mask=SlidingWindow(2), bias=bias)
    assert asked == [(0, 2, 0, 2), (2, 3, 1, 3), (3, 5, 2, 5), (5, 6, 4, 6)]


@pytest.mark.parametrize("shape", [(6, 6), (4, 6, 6), (1, 3, 6, 6), (1, 4, 6, 1)])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_a_bias_function_that_returns_another_shape_is_refused(shape, softcap):
    def bias(q, k, rows, columns, visible):
        return torch.zeros(shape)

    with pytest.raises(HeadwiseError, match="what the bias function returns must be"):
        attention(*draw(6, 6), bias=bias, softcap=softcap)


def steep(q, k, rows, columns, visible):
    """A bias so steep that most weights are below the smallest float32."""
    distance = torch.arange(32)[rows][:, None] - torch.arange(32)[columns]
    return (-100.0 * distance.abs().double())[None, None].to(torch.promote_types(q.dtype, torch.float32))


def test_a_steep_bias_loses_nothing_but_what_rounding_does():
    q, k, v = (torch.randn(1, 2, 32, 8) for _ in range(3))
    wide = [x.double() for x in (q, k, v)]
    scores = wide[0] @ wide[1].mT / 8**0.5 + steep(wide[0], wide[1], slice(0, 32), slice(0, 32), None)
    expected = scores.softmax(-1) @ wide[2]
    # float32 rounds q.k (8 terms of about 1), the softmax and 32 sums of values: well below 64 roundings
    torch.testing.assert_close(attention(q, k, v, bias=steep).double(), expected, rtol=0, atol=64 * 2**-24)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_number_in_one_row_of_the_batch_stays_there(bad):
    q, k, v = (torch.randn(2, 2, 32, 8) for _ in range(3))
    alone = attention(q[1:], k[1:], v[1:], bias=steep)
    q[0, 0, 0, 0] = bad
    k[0, 0, 3, 1] = bad
    torch.testing.assert_close(attention(q, k, v, bias=steep)[1:], alone, rtol=0, atol=64 * 2**-24)
