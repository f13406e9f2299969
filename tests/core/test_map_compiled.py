"""The compiled pass over a map's scores: when it is taken, and what only it could get wrong."""

import os
import subprocess
import sys

import numba
import torch

from headwise.core import AttentionMap, Causal, Padding, attention_map, map_compiled, map_kernel
from headwise.core.map_compiled import can_be_compiled, rows_kernel
from headwise.core.map_pieces import ScoredRows


def taken(q, k, **how):
    p = AttentionMap(q, k, **how)
    return can_be_compiled(ScoredRows(q, k, p.how, None), p.sinks, p._zeros(0))


def test_when_it_is_taken():
    x = torch.randn(1, 2, 5, 4)
    assert taken(x, x, mask=Causal())
    assert taken(x.bfloat16(), x.bfloat16())
    assert not taken(x.double(), x.double())
    assert not taken(x, x, bias=torch.zeros(1, 2, 5, 5)), "a bias may hide, and may be infinite"
    for bad in (torch.nan, torch.inf, 1e20):
        y = x.clone()
        y[0, 1, 3, 2] = bad
        assert not taken(y, y)
    assert taken(x, x, sinks=torch.tensor([torch.inf, -torch.inf]))
    assert not taken(x, x, sinks=torch.tensor([torch.nan, 0.0]))
    assert taken(x, x, softcap=30.0)
    assert not taken(x, x, softcap=1e300)
    assert not taken(x, x, softcap=1e-60)
    assert not taken(1e25 * x, 1e-38 * x, scale=1e20), "to scale the queries would overflow"


def test_a_small_map_is_not_worth_importing_numba_for(monkeypatch, fewest_scores):
    monkeypatch.setattr(map_compiled, "_FEWEST_SCORES", fewest_scores)
    assert not taken(torch.randn(1, 12, 128, 4), torch.randn(1, 12, 128, 4))
    assert taken(torch.randn(1, 12, 256, 4), torch.randn(1, 12, 256, 4))


def test_without_numba(monkeypatch):
    monkeypatch.delitem(sys.modules, "headwise.core.map_kernel")
    monkeypatch.setitem(sys.modules, "numba", None)
    assert rows_kernel.__wrapped__() is None


def test_without_a_folder_to_keep_it_in(monkeypatch):
    real = numba.njit

    def njit(*function, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*function, **options)

    monkeypatch.setattr(numba, "njit", njit)
    twice = map_kernel._kept(lambda x: 2 * x)
    assert twice(3) == 6


def test_rounding_does_not_hang_on_what_is_on_disk(tmp_path):
    """The first process compiles and keeps; the second takes what was kept."""
    found = [_in_a_process(tmp_path) for _ in range(2)]
    assert found[0] == found[1]
    assert list(tmp_path.rglob("*.nbc")), "nothing was kept"


def _in_a_process(folder):
    code = """if True:
        import torch
        from headwise.core import AttentionMap, Causal
        q = torch.linspace(-3, 3, 1 * 2 * 600 * 8).sin().view(1, 2, 600, 8)
        p = AttentionMap(q, q, mask=Causal(), scale=1.0).statistics()
        print([x.sum(dtype=torch.float64).item() for x in p[:-1]], p.distance.mean.double().sum().item())
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_rows_that_see_nothing_and_one_key_and_very_large_scores():
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.5, 0.5]])[None, None]
    q = torch.tensor([[3e4, 0.0], [0.0, 0.0], [-3e4, 0.0], [0.0, 3e4]])[None, None]
    nothing = Padding(torch.tensor([[False] * 4]))
    p = AttentionMap(q, k, mask=nothing, scale=1.0).statistics()
    assert not any(x.any() for x in (p.entropy, p.largest_weight, p.received, p.pool, p.distance.spread))
    assert p.largest_score.isneginf().all()
    assert p.log_normalizer.isneginf().all()
    p = AttentionMap(q, k, scale=1.0).statistics()
    assert p.largest_weight[0, 0].tolist() == [1.0, 0.25, 1.0, 1.0]
    assert p.largest_score[0, 0].tolist() == [3e4, 0.0, 3e4, 3e4]
    assert p.distance.mean[0, 0].tolist() == [0.0, 1.0, 0.0, 2.0]
    assert p.distance.spread[0, 0, [0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
    assert p.entropy[0, 0, [0, 2, 3]].tolist() == [0.0, 0.0, 0.0]


def test_a_spread_of_one_token_far_away():
    length = 5000
    k = torch.full((1, 1, length, 1), -200.0)
    k[0, 0, :2] = 0.0
    found = AttentionMap(torch.ones(1, 1, length, 1), k, scale=1.0).statistics().distance
    assert found.mean[0, 0, -1] == length - 1.5
    assert found.spread[0, 0, -1] == 0.5


def test_a_sink_that_takes_everything(monkeypatch):
    q, sinks = torch.randn(1, 2, 6, 4), torch.tensor([torch.inf, 0.0])
    compiled = AttentionMap(q, q, mask=Causal(), sinks=sinks).statistics()
    monkeypatch.setattr(attention_map, "can_be_compiled", lambda *_: False)
    plain = AttentionMap(q, q, mask=Causal(), sinks=sinks).statistics()
    for one, other in zip((*compiled[:11], *compiled[11][:3]), (*plain[:11], *plain[11][:3]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert not compiled.received[:, 0].any()


def test_a_spread_far_away_does_not_hang_on_the_rounding_of_a_total():
    length = 5000
    k = torch.full((1, 1, length, 1), -200.0)
    k[0, 0, :2, 0] = torch.tensor([0.0, -0.37])
    p = AttentionMap(torch.ones(1, 1, length, 1), k, scale=1.0)
    exact = AttentionMap(p.q.double(), p.k.double(), scale=1.0)
    # of an average square of 2.5e7 the spread keeps less than one in float32
    torch.testing.assert_close(
        p.statistics().distance.spread[0, 0, 100:].double(),
        exact.statistics().distance.spread[0, 0, 100:],
        rtol=0.0,
        atol=1e-5,
    )
