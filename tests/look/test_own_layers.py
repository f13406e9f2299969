"""headwise's own layers: each call of attention is seen once, and says what the layer says."""

import pytest
import torch

from headwise.core import Causal, Documents, Padding, Prefix, SlidingWindow, block, blocks
from headwise.layers import ALiBi, CoPE, KVCache, MultiHeadAttention, Shaw, Sinks
from headwise.look import InMemory, OnDisk, load, record, save, watch
from tests.look.models import exact, seen
from tests.look.plainly import Text
from tests.look.recorded import check, recorded

LENGTH, HEADS, HEAD_DIM = 40, 2, 8
# weights are up to 1: scores of 8 terms, a cap and a bias, then exp and a sum of at most 40 numbers, each a
# rounding or two; scores are up to about 10, and a rounding of such a score is 10 of its weight
EXACT = 40 * 10 * torch.finfo(torch.float32).eps
CASES = {
    "plain": {},
    "sinks": {"mask": Causal(), "sinks": 1.5},
    "learned sinks": {"mask": Causal(), "sinks": Sinks(HEADS, 0.5)},
    "sinks without a mask": {"sinks": -1.0},
    "softcap": {"mask": Causal(), "softcap": 0.7},
    "softcap and sinks": {"mask": Causal(), "softcap": 0.7, "sinks": 0.5},
    "window": {"mask": SlidingWindow(5)},
    "prefix": {"mask": Prefix(7)},
    "two masks": {"mask": Causal() & SlidingWindow(9, ahead=3), "sinks": 0.5},
    "ALiBi": {"mask": Causal(), "position": ALiBi(HEADS)},
    "ALiBi, softcap, sinks, window": {
        "mask": SlidingWindow(9), "position": ALiBi(HEADS), "softcap": 0.7, "sinks": 0.5,
    },
    "CoPE": {"mask": Causal(), "position": CoPE(HEAD_DIM, max_position=16)},
    "Shaw": {"mask": Causal(), "position": Shaw(HEAD_DIM, max_distance=3, std=1.0)},
    "Shaw of each head": {"mask": Causal(), "position": Shaw(HEAD_DIM, 3, heads=HEADS, std=1.0)},
    "grouped": {"mask": Causal(), "kv_heads": 1, "sinks": 0.5, "position": ALiBi(HEADS)},
}  # fmt: skip
KEEP = {
    "left": torch.arange(LENGTH) >= torch.tensor([[0], [7]]),
    "right": torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 7]]),
}


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch):
    """Blocks of 16 queries, as long calls have larger ones."""
    monkeypatch.setattr(block, "_MOST_ROWS", 16)


def layer_of(name):
    return MultiHeadAttention(HEADS * HEAD_DIM, HEADS, **CASES[name]).eval()


def by_formula(layer, call):
    """The weights from the queries and keys of a call in float64; None where the encoding reads content."""
    if isinstance(layer.position, CoPE | Shaw):
        return None
    q, k = call.q.double(), call.k.double().repeat_interleave(layer.heads // layer.kv_heads, 1)
    scores = q @ k.mT * HEAD_DIM**-0.5
    scores = scores if layer.softcap is None else layer.softcap * (scores / layer.softcap).tanh()
    at = torch.arange(LENGTH)
    if isinstance(layer.position, ALiBi):
        scores = scores - torch.tensor([2.0**-4, 2.0**-8])[:, None, None] * (at[:, None] - at).abs()
    if layer.mask is not None:
        scores = scores.masked_fill(~layer.mask.visible(at, at), -torch.inf)
    sinks = layer.sinks.logits if isinstance(layer.sinks, Sinks) else layer.sinks
    logit = torch.as_tensor(-torch.inf if sinks is None else sinks).double().expand(HEADS)
    column = logit[None, :, None, None].expand(*scores.shape[:3], 1)
    return torch.cat((scores, column), -1).softmax(-1)[..., :-1]


@pytest.mark.parametrize("name", CASES)
def test_the_call_is_whole_and_says_what_the_layer_says(name):
    layer, x = layer_of(name), torch.randn(2, LENGTH, HEADS * HEAD_DIM)
    (call,), coverage = seen(layer, x)
    assert (call.kind, call.q.shape[2], call.k.shape[2]) == ("headwise", LENGTH, LENGTH)
    assert (coverage.complete, coverage.compared) == (True, 1)
    assert coverage.largest_difference <= EXACT
    with torch.no_grad():
        wanted = layer.with_weights(x).weights.dense()
        for weights in (call.weights(), call.map().dense()):
            torch.testing.assert_close(weights, wanted, atol=EXACT, rtol=0)
            if (formula := by_formula(layer, call)) is not None:
                torch.testing.assert_close(weights.double(), formula, atol=EXACT, rtol=0)
        rows = torch.tensor([3, 17, 39])
        part = call.at(rows).of([1])
        torch.testing.assert_close(part.weights(), wanted[:, 1:, rows], atol=EXACT, rtol=0)
        torch.testing.assert_close(part.map().dense(), wanted[:, 1:, rows], atol=EXACT, rtol=0)


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("name", ["sinks", "softcap and sinks", "window", "ALiBi", "CoPE", "Shaw", "grouped"])
def test_a_recording_is_what_the_weights_say(name, side):
    layer, x = layer_of(name), torch.randn(2, LENGTH, HEADS * HEAD_DIM)
    given = {} if side is None else {"mask": Padding(KEEP[side])}
    recording = recorded(layer, x, keep=InMemory(), **given)
    with torch.no_grad():
        p = layer.with_weights(x, **given).weights.dense().double()
    keeps = torch.ones(2, LENGTH).bool() if side is None else KEEP[side]
    alone = [one[:, keep][:, :, keep] for one, keep in zip(p, keeps, strict=True)]
    check(recording.layers[""], [Text(one) for one in alone])
    assert recording.coverage.complete
    assert recording.coverage.largest_difference <= EXACT
    for kept, one in zip(recording.kept, alone, strict=True):
        torch.testing.assert_close(kept.map().dense()[0].double(), one, atol=EXACT, rtol=0)
        torch.testing.assert_close(kept.map(head=1).dense()[0].double(), one[1:], atol=EXACT, rtol=0)


def test_a_window_that_runs_in_several_blocks_of_its_own(monkeypatch):
    monkeypatch.undo()
    layer, x = MultiHeadAttention(16, 2, mask=SlidingWindow(64)), torch.randn(1, 700, 16)
    (call,), coverage = seen(layer, x)
    assert (call.q.shape[2], call.k.shape[2], coverage.compared) == (700, 700, 1)
    recording = recorded(layer, x)
    with torch.no_grad():
        weights = layer.with_weights(x).weights
    distance = weights.distance().mean.double().mean((0, 2))
    torch.testing.assert_close(recording.layers[""].sums.mean("distance"), distance, rtol=1e-5, atol=0)
    assert float(recording.layers[""].sums.mean("distance").max()) < 64


def test_packed_documents():
    layer = MultiHeadAttention(16, 2, mask=Causal(), position=ALiBi(2), sinks=0.5)
    ids = (torch.arange(LENGTH) // 13).expand(2, -1)
    x = torch.randn(2, LENGTH, 16)
    recording = recorded(layer, x, mask=Documents(ids))
    with torch.no_grad():
        p = layer.with_weights(x, mask=Documents(ids)).weights.dense().double()
    check(recording.layers[""], [Text(one) for one in p])


@pytest.mark.parametrize("name", ["sinks", "window", "ALiBi", "Shaw", "softcap"])
def test_a_new_token_with_a_cache(name):
    layer, x = layer_of(name), torch.randn(1, LENGTH, HEADS * HEAD_DIM)
    with torch.no_grad():
        cache, calls = KVCache(), []
        layer(x[:, :-1], cache=cache)
        with watch(layer, calls.append, verify=True) as coverage:
            layer(x[:, -1:], cache=cache)
        wanted = layer.with_weights(x).weights.dense()[:, :, -1:]
    assert [(call.q.shape[2], call.k.shape[2]) for call in calls] == [(1, LENGTH)]
    assert coverage.largest_difference <= EXACT
    torch.testing.assert_close(calls[0].map().dense(), wanted, atol=EXACT, rtol=0)


def test_more_queries_than_keys():
    layer, x = MultiHeadAttention(16, 2, mask=Causal(), sinks=0.5), torch.randn(1, 5, 16)
    memory = torch.randn(1, 3, 16)
    recording = recorded(layer, x, memory)
    with torch.no_grad():
        p = layer.with_weights(x, memory).weights.dense().double()
    assert not p[:, :, :2].any()
    check(recording.layers[""], [Text(one, place=None) for one in p])


def test_a_saved_recording_opens_the_same_maps(tmp_path):
    layer, x = layer_of("ALiBi, softcap, sinks, window"), torch.randn(1, LENGTH, HEADS * HEAD_DIM)
    (tmp_path / "kept").mkdir()
    recording = recorded(layer, x, keep=OnDisk(tmp_path / "kept"))
    save(recording, tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    with torch.no_grad():
        wanted = layer.with_weights(x).weights.dense()
    torch.testing.assert_close(loaded.map(0).dense(), wanted, atol=EXACT, rtol=0)


@pytest.mark.parametrize("name", ["softcap", "ALiBi", "sinks", "Shaw"])
@pytest.mark.parametrize("kept", [True, False])
def test_the_backward_pass_is_no_second_call(name, kept, monkeypatch):
    monkeypatch.setattr(blocks, "_KEPT_ELEMENTS", 2**24 if kept else 0)
    layer, x = layer_of(name), torch.randn(1, LENGTH, HEADS * HEAD_DIM)
    layer(x).sum().backward()
    wanted = layer.query.weight.grad.clone()
    layer.zero_grad()
    with record(layer) as recording:
        torch.autograd.backward(layer(x).sum())
    assert exact(layer.query.weight.grad, wanted)
    assert recording.layers[""].calls == 1
    assert recording.coverage.complete


def test_dropout_is_not_compared():
    layer, x = MultiHeadAttention(16, 2, dropout=0.5, softcap=2.0).train(), torch.randn(1, 5, 16)
    (call,), coverage = seen(layer, x)
    assert (call.dropout, coverage.compared) == (0.5, 0)
    assert coverage.not_comparable == {"dropout is random": 1}
