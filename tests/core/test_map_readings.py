"""Parts of an attention map, and what holds of it whatever is read: O(n) memory, no gradient, no change."""

import math

import pytest
import torch

from headwise.core import AttentionMap, Causal, SlidingWindow, map_pieces, map_scores
from headwise.layers import MultiHeadAttention
from tests.core import maps
from tests.core.test_memory import LargestTensor

# both sides are float64 with sums of at most 9 terms of size about 1
EXACT = {"rtol": 0.0, "atol": 1e-12}
every_map = pytest.mark.parametrize(("kind", "mask"), maps.KINDS_AND_MASKS)


@pytest.fixture(autouse=True)
def _pieces_of_two_rows(monkeypatch):
    monkeypatch.setattr(map_pieces, "_FEWEST_ROWS", 2)
    monkeypatch.setattr(map_pieces, "_PIECE_ELEMENTS", 1)
    monkeypatch.setattr(map_scores, "_EDGE", 1)  # which would keep every column of so few


def both(kind, mask, queries=7, keys=9):
    q, k, kwargs, visible = maps.make(kind, mask, queries, keys)
    return AttentionMap(q, k, **kwargs), maps.dense(q, k, kwargs, visible)[0]


@every_map
def test_parts_of_the_matrix(kind, mask):
    p, dense = both(kind, mask)
    some = torch.tensor([5, 0, 0, 6, 2])
    keys = torch.tensor([8, 0, 1, 0, 3])
    torch.testing.assert_close(p.rows(some), dense[:, :, some], **EXACT)
    torch.testing.assert_close(p.tile(slice(1, 6, 2), slice(3, 8)), dense[:, :, 1:6:2, 3:8], **EXACT)
    torch.testing.assert_close(p.tile(slice(3), slice(4, 4)), dense[:, :, :3, 4:4], **EXACT)
    torch.testing.assert_close(p.entries(some, keys), dense[:, :, some, keys], **EXACT)


@every_map
def test_products(kind, mask):
    p, dense = both(kind, mask)
    for shape in ((1, 1), (2, 1), (1, 4), (2, 4)):
        values, of_queries = (torch.randn(*shape, length, 3, dtype=torch.float64) for length in (9, 7))
        torch.testing.assert_close(p @ values, dense @ values, **EXACT)
        torch.testing.assert_close(p.T @ of_queries, dense.mT @ of_queries, **EXACT)
    classes = torch.rand(3, 9) < 0.5
    expected = torch.stack([dense[..., marked].sum(-1) for marked in classes], -1)
    torch.testing.assert_close(p.mass(classes), expected, **EXACT)


@every_map
def test_top_gives_real_keys_with_their_weights(kind, mask):
    p, dense = both(kind, mask)
    for queries in (None, torch.tensor([6, 1])):
        wanted = dense if queries is None else dense[:, :, queries]
        for k in (1, 4, 99):
            weights, keys = p.top(k, queries)
            torch.testing.assert_close(weights, wanted.sort(-1, descending=True).values[..., :k], **EXACT)
            torch.testing.assert_close(wanted.gather(-1, keys), weights, **EXACT)
            assert keys.sort(-1).values.diff().all(), "no key twice"


@every_map
def test_value_weighted(kind, mask):
    p, dense = both(kind, mask)
    v, output_weight = torch.randn(2, 2, 9, 5).double(), torch.randn(6, 20).double()
    v[0, 0, 3] = 0.0
    arrives = torch.empty_like(dense)
    for head in range(4):
        vectors = v[:, head // 2] @ output_weight[:, 5 * head : 5 * head + 5].T
        arrives[:, head] = dense[:, head] * vectors.norm(dim=-1)[:, None]
    total = arrives.sum(-1, keepdim=True)
    expected = arrives / total.where(total > 0, 1.0)
    torch.testing.assert_close(p.value_weighted(v, output_weight).dense(), expected, **EXACT)


@every_map
def test_statistics_of_some_queries_and_without_the_left_out(kind, mask):
    p, dense = both(kind, mask)
    some, keep = torch.tensor([6, 1, 2]), torch.tensor([[True] * 7, [False] * 3 + [True] * 4])
    sampled, kept = p.statistics(queries=some), p.statistics(keep=keep)
    rows = dense[:, :, some]
    torch.testing.assert_close(sampled.received, rows.sum(2), **EXACT)
    torch.testing.assert_close(sampled.entropy, torch.special.entr(rows).sum(-1), **EXACT)
    torch.testing.assert_close(sampled.on_previous, maps.on(dense, -1)[:, :, some], **EXACT)
    torch.testing.assert_close(sampled.pool[:, :, some], rows, **EXACT)
    chosen = torch.zeros(7, 1, dtype=torch.float64).index_fill_(0, some, 7 / 3)
    torch.testing.assert_close(sampled.distance.histogram, maps.moments(dense * chosen)[2], **EXACT)
    mean, variance, _ = maps.moments(dense)
    torch.testing.assert_close(sampled.distance.mean, mean[:, :, some], **EXACT)
    torch.testing.assert_close(sampled.distance.spread.square(), variance[:, :, some], **EXACT)
    counted = dense * keep[:, None, :, None]
    torch.testing.assert_close(kept.received, counted.sum(2), **EXACT)
    share = (7 / keep.sum(-1))[:, None, None].double()
    torch.testing.assert_close(kept.distance.histogram, maps.moments(counted)[2] * share, **EXACT)


def test_sinks_of_queries_may_be_shared_by_the_batch():
    q, k, kwargs, _ = maps.make("nothing", "causal", 7, 9)
    shared = torch.randn(1, 4, 7, dtype=torch.float64)
    one, other = (AttentionMap(q, k, sinks=sinks, **kwargs) for sinks in (shared, shared.repeat(2, 1, 1)))
    assert torch.equal(one.dense(), other.dense())
    assert (one.dense().sum(-1) < 1).all()


def test_pieces_keep_their_numbers():
    p, dense = both("all", "causal & padding")
    pieces = list(p.pieces())
    assert len(pieces) > 1
    for piece in pieces:
        torch.testing.assert_close(piece.weights, dense[:, :, piece.rows, piece.columns], **EXACT)


def test_reading_changes_nothing():
    p, _ = both("all", "causal & padding")
    q, k = p.q.clone(), p.k.clone()
    first = p.dense()
    p.statistics(), p.value_weighted(torch.randn(2, 2, 9, 3).double(), torch.eye(12).double()).entropy()
    assert torch.equal(p.q, q)
    assert torch.equal(p.k, k)
    assert torch.equal(p.dense(), first)


def test_no_gradient_passes():
    leaf = torch.randn(1, 2, 4, 6, requires_grad=True)
    bias = torch.zeros(1, 2, 4, 4, requires_grad=True)
    p = AttentionMap(leaf, leaf, bias=bias, sinks=torch.zeros(2, requires_grad=True))
    found = (p @ leaf, p.T @ leaf, p.entropy(), p.dense(), p.value_weighted(leaf, torch.eye(12)).dense())
    assert not any(x.requires_grad for x in (*found, *p.statistics()[:10]))


def test_bad_numbers_stay_in_their_row_of_the_batch():
    q, k = torch.randn(2, 2, 8, 6), torch.randn(2, 2, 8, 6)
    alone = AttentionMap(q[1:], k[1:], mask=Causal()).statistics()
    q[0, 0, 3, 1], k[0, 1, 4, 2] = torch.nan, torch.inf
    beside = AttentionMap(q, k, mask=Causal()).statistics()
    assert beside.entropy[0, 0, 3].isnan()
    for one, other in zip(
        (*alone[:10], *alone.distance[:3]), (*beside[:10], *beside.distance[:3]), strict=True
    ):
        torch.testing.assert_close(other[1:], one, rtol=1e-5, atol=1e-6)


def test_autocast_does_not_round():
    q, k = torch.randn(1, 2, 8, 6), torch.randn(1, 2, 8, 6)
    p = AttentionMap(q, k)
    plain = (p @ k, p.T @ k, p.entropy(), p.pool(4), p.distance().mean)
    with torch.autocast("cpu"):
        found = (p @ k, p.T @ k, p.entropy(), p.pool(4), p.distance().mean)
    assert all(torch.equal(one, other) for one, other in zip(plain, found, strict=True))


@pytest.mark.parametrize("mask", [None, Causal(), SlidingWindow(8)])
def test_no_reading_makes_a_tensor_as_large_as_the_matrix(monkeypatch, mask):
    length, heads = 512, 2
    most = heads * length * length // 16
    monkeypatch.setattr(map_pieces, "_PIECE_ELEMENTS", most)
    q = torch.randn(1, heads, length, 8)
    p = AttentionMap(q, q, mask=mask)
    with LargestTensor() as largest:
        p.statistics(), p.T @ q, p @ q, p.top(3), p.diagonal(-1), p.value_weighted(q, torch.eye(16)).entropy()
    # the readings themselves have at most 64 numbers for each query
    assert largest.numbers <= max(most, 64 * heads * length)


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)])
@pytest.mark.parametrize("mask", [None, Causal()])
def test_sizes_of_zero(batch, queries, keys, mask):
    q, k = torch.randn(batch, 4, queries, 6), torch.randn(batch, 2, keys, 6)
    p = AttentionMap(q, k, mask=mask)
    assert p.dense().shape == p.shape == (batch, 4, queries, keys)
    assert p.entropy().shape == (batch, 4, queries)
    assert p.top(2)[1].shape == (batch, 4, queries, min(2, keys))
    assert (p @ torch.ones(1, 1, keys, 5)).shape == (batch, 4, queries, 5)
    assert p.statistics().received.shape == (batch, 4, keys)
    assert str(p).startswith("AttentionMap(batch")
    assert p._repr_html_().startswith("<div>AttentionMap(batch")


def test_its_picture():
    layer = MultiHeadAttention(12, heads=6, mask=Causal())
    p = layer.with_weights(torch.zeros(1, 3, 12)).weights
    assert repr(p) == "AttentionMap(batch 1, 6 heads, 3 queries, 3 keys, causal)"
    assert str(p).splitlines()[-1] == "and 2 more heads"
    assert str(p).splitlines()[2].split() == ["@"] * 4
    assert p._repr_html_().count("<svg") == 6


def test_entropy_of_the_largest_scores():
    """A hidden key's score, the lowest number, is infinitely far from them, and 0 times that is no number."""
    q, k = torch.full((1, 1, 2, 1), 1e19), torch.full((1, 1, 2, 1), 2e19)
    p = AttentionMap(q, k, mask=Causal(), scale=1.0)
    expected = torch.tensor([0.0, math.log(2)])
    assert torch.allclose(p.entropy()[0, 0], expected)
    assert torch.allclose(p.statistics().entropy[0, 0], expected)


def test_entropy_of_one_key_that_takes_nearly_all():
    """Small and far from zero scores: ``- p log p - (1 - p) log (1 - p)`` to float32's rounding."""
    q, k = torch.ones(1, 1, 1, 1), torch.tensor([4096.0, 4080.0]).view(1, 1, 2, 1)
    rest = 1 / (1 + math.exp(16))
    expected = -rest * math.log(rest) - (1 - rest) * math.log1p(-rest)
    found = AttentionMap(q, k, scale=1.0).entropy().item()
    unit = torch.finfo(torch.float32).eps / 2
    # p_j (m - s_j) is right to a few roundings; log max p is as near as 1 - p can be
    assert abs(found - expected) <= 8 * unit * expected + unit
