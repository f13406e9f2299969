"""Every reading of an attention map against the dense matrix, for every mask, bias, softcap and sink."""

import itertools

import pytest
import torch

from headwise.core import AttentionMap, attention_map, map_kernel, map_pieces, map_scores
from headwise.core.map_compiled import can_be_compiled
from tests.core import maps

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
WAYS = (can_be_compiled, lambda *_: False)
both_ways = pytest.mark.parametrize("way", WAYS, ids=["compiled where it can be", "not compiled"])
every_map = pytest.mark.parametrize(("kind", "mask"), maps.KINDS_AND_MASKS)


def bounds(q, k, kwargs, dtype):
    """How far a score, and a weight as a share of itself, can be off by rounding.

    With u the unit roundoff, a score is a sum of ``head_dim`` products, of size S at most, scaled, capped and
    biased: ``(head_dim + 4) u S``. A weight is an exponential over a sum of them, n terms: twice that error,
    ``n u`` for the sum and 8 u for the exponential, the quotient and the share of a sink. Inputs in bfloat16
    are exact numbers to both sides.
    """
    unit = torch.finfo(torch.promote_types(dtype, torch.float32)).eps / 2
    wide_q, wide_k, scale, bias = maps.parts(q, k, kwargs)
    size = abs(scale) * wide_q.norm(dim=-1).max() * wide_k.norm(dim=-1).max()
    size = float(size + bias.where(bias.isfinite(), 0.0).abs().max())
    score = (q.shape[-1] + 4) * unit * max(1.0, size)
    return score, 2 * score + (k.shape[2] + 8) * unit, unit, max(1.0, size)


def compare(found, expected, share, least=0.0):
    """Equal within ``share`` of the expected number and ``least`` besides."""
    assert found.shape == expected.shape
    finite = expected.isfinite()
    assert torch.equal(found[~finite].double(), expected[~finite])
    gap = (found.double() - expected).abs()[finite]
    assert (gap <= share * expected.abs()[finite] + least).all(), float(gap.max())


def check_everything(q, k, kwargs, visible, dtype):
    weights, normalizer, scores = maps.dense(q, k, kwargs, visible)
    score, share, unit, size = bounds(q, k, kwargs, dtype)
    tiny = torch.finfo(torch.promote_types(dtype, torch.float32)).tiny
    queries, keys = weights.shape[2:]
    p = AttentionMap(q, k, **kwargs)
    compare(p.dense(), weights, share, tiny)
    compare(p.log_normalizer(), normalizer, 4 * unit, score + share)
    mean, variance, histogram = maps.moments(weights)
    total = share + (queries + keys) * unit  # a sum of weights adds its own roundings
    entropy = torch.special.entr(weights).sum(-1)
    off = (
        2 * share * (1 + 2 * size + torch.tensor(float(keys)).log())
    )  # of sum p S, whose terms are up to size
    for entropies in (p.entropy(), p.statistics().entropy):
        compare(entropies, entropy, 0.0, float(off))
    classes = torch.arange(keys).remainder(3) == torch.arange(3)[:, None]
    distance, found = p.distance(), p.statistics(classes=classes, bins=5)
    for one in (distance, found.distance):
        assert one.edges == maps.distances(weights)[1]
        compare(one.mean, mean, 2 * total, 0.0 if visible is None else tiny)
        # moments about the middle of a run of 64 keys: 66 roundings of numbers up to 32^2
        compare(one.spread.double().square(), variance, 8 * total, 2 * 66 * 32**2 * unit)
        compare(one.histogram, histogram, total, tiny)
    for received in (p.received(), found.received, (p.T @ torch.ones(1, 1, queries, 1))[..., 0]):
        compare(received, weights.sum(2), total, queries * tiny)
    for pool in (p.pool(5), found.pool):
        compare(pool, maps.pooled(weights, 5), total, queries * tiny)
    for offset in (-keys, -2, -1, 0, 1, 3):
        compare(p.diagonal(offset), maps.diagonal(weights, offset), share, tiny)
    compare(found.on_self, maps.on(weights, 0), share, tiny)
    compare(found.on_previous, maps.on(weights, -1), share, tiny)
    compare(found.on_next, maps.on(weights, 1), share, tiny)
    compare(found.on_first, weights[..., 0], share, tiny)
    for on_classes in (found.on_classes, p.mass(classes)):
        compare(on_classes, weights @ classes.T.to(weights.dtype), total, keys * tiny)
    compare(found.largest_weight, weights.amax(-1), share, tiny)
    compare(found.largest_score, scores.amax(-1), 0.0, score)
    compare(found.log_normalizer, normalizer, 4 * unit, score + share)


@every_map
@pytest.mark.parametrize("small", [False, True])
def test_every_reading_of_every_kind_of_map(monkeypatch, kind, mask, small):
    monkeypatch.setattr(map_pieces, "_FEWEST_ROWS", 2)
    if small:
        monkeypatch.setattr(map_pieces, "_PIECE_ELEMENTS", 1)  # pieces of two rows
        monkeypatch.setattr(map_scores, "_EDGE", 1)  # and of no more columns than they reach
    for queries, keys in ((6, 6), (2, 6), (9, 4)):
        q, k, kwargs, visible = maps.make(kind, mask, queries, keys)
        check_everything(q, k, kwargs, visible, torch.float64)
        check_everything(q.float(), k.float(), kwargs, visible, torch.float32)


@every_map
def test_the_weights_by_loops(kind, mask):
    """The oracle's plain loops on plain numbers, sinks apart, which it has none of."""
    if "sinks" in maps.KINDS[kind](1, 1, torch.float64):
        kind = "nothing"
    q, k, kwargs, visible = maps.make(kind, mask, 3, 5)
    p = AttentionMap(q, k, **kwargs)
    torch.testing.assert_close(p.dense(), maps.by_loops(q, k, kwargs, visible), rtol=0, atol=1e-12)


@both_ways
@pytest.mark.parametrize(
    ("length", "mask", "dtype"),
    [
        *itertools.product((1, 2, 127, 129), (None, "window 3", "causal & padding"), DTYPES),
        (777, None, torch.float64),
        (777, "causal & padding", torch.float32),
        (777, "causal & padding", torch.bfloat16),
    ],
)
def test_odd_lengths_in_each_dtype(monkeypatch, length, mask, dtype, way):
    monkeypatch.setattr(attention_map, "can_be_compiled", way)
    monkeypatch.setattr(map_pieces, "_PIECE_ELEMENTS", 2**17)
    for kind in ("all", "sinks") if length == 777 else ("tensor bias", "all", "sinks"):
        q, k, kwargs, visible = maps.make(kind, mask, length, length, dtype)
        if kind == "all":
            kwargs["bias"] = maps.by_content  # ALiBi over 777 tokens would leave nothing far away to compare
        check_everything(q, k, kwargs, visible, dtype)


@pytest.mark.parametrize("mask", [None, "causal", "window 99", "padding"])
def test_rows_of_several_blocks(mask):
    """The compiled pass adds so many terms in float32 before it goes on in float64."""
    keys = 2 * map_kernel._BLOCK + 100
    q, k, kwargs, visible = maps.make("sinks", mask, 60, keys, torch.float32)
    check_everything(q, k, kwargs, visible, torch.float32)


@both_ways
@pytest.mark.parametrize("dtype", DTYPES)
def test_fewer_and_more_queries_than_keys(monkeypatch, dtype, way):
    monkeypatch.setattr(attention_map, "can_be_compiled", way)
    for queries, keys in ((5, 200), (200, 70)):
        for mask in ("causal", "prefix 2", None):
            q, k, kwargs, visible = maps.make("nothing", mask, queries, keys, dtype)
            check_everything(q, k, kwargs, visible, dtype)


@both_ways
@pytest.mark.parametrize("mask", [None, "causal", "window 3", "causal & padding"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_readings_of_a_sample_in_any_order_without_the_left_out(monkeypatch, dtype, mask, way):
    monkeypatch.setattr(attention_map, "can_be_compiled", way)
    for queries, keys in ((300, 300), (90, 300), (300, 70)):
        q, k, kwargs, visible = maps.make("nothing", mask, queries, keys, dtype)
        _, share, unit, _ = bounds(q, k, kwargs, dtype)
        rows, keep = torch.randperm(queries)[:77], torch.rand(len(q), queries) < 0.7
        found = AttentionMap(q, k, **kwargs).statistics(queries=rows, keep=keep, bins=5)
        weights = maps.dense(q, k, kwargs, visible)[0]
        mean, variance = (x[:, :, rows] for x in maps.moments(weights)[:2])
        counts = torch.zeros(queries, dtype=torch.float64).index_fill_(0, rows, 1.0) * keep
        counted = weights * counts[:, None, :, None]
        total, tiny = share + (queries + keys) * unit, torch.finfo(found.received.dtype).tiny
        compare(found.distance.mean, mean, 2 * total, tiny)
        compare(found.distance.spread.double().square(), variance, 8 * total, 2 * 66 * 32**2 * unit)
        histogram = maps.moments(counted)[2] * queries / counts.sum(-1)[:, None, None]
        compare(found.distance.histogram, histogram, total, tiny)
        compare(found.received, counted.sum(2), total, queries * tiny)
        in_bins = maps.pooled(counts[:, None, :, None], 5)
        compare(found.pool, maps.pooled(counted, 5) / in_bins, total, queries * tiny)
