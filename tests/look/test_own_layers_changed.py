"""headwise's own layers under more than one watcher, with heads removed, compiled, vectorised."""

import pytest
import torch

from headwise.core import Causal, HeadwiseError, attention, block
from headwise.layers import ALiBi, MultiHeadAttention, Shaw
from headwise.look import Uniform, Zero, ablate, importance, record, watch
from tests.look.models import seen

CASES = {
    "plain": {"mask": Causal()},
    "sinks": {"mask": Causal(), "sinks": 0.5},
    "softcap": {"mask": Causal(), "softcap": 0.7},
    "ALiBi": {"mask": Causal(), "position": ALiBi(2)},
    "Shaw": {"mask": Causal(), "position": Shaw(8, max_distance=3, std=1.0)},
}
# outputs are sums of 16 numbers that are themselves sums of at most 24, of size 1: far below 100 roundings
CLOSE = 100 * torch.finfo(torch.float32).eps


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch):
    monkeypatch.setattr(block, "_MOST_ROWS", 16)


def given(name):
    return MultiHeadAttention(16, 2, **CASES[name]).eval(), torch.randn(2, 24, 16)


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_a_head_is_removed(name):
    layer, x = given(name)
    wanted = layer(x, head_mask=torch.tensor([1.0, 0.0]))
    with ablate(layer, "0.1", Zero()) as coverage:
        got = layer(x)
    assert coverage.changed == 1
    torch.testing.assert_close(got, wanted, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_gates_have_the_slope_of_a_head_mask(name):
    layer, x = given(name)
    mask = torch.ones(2, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(x, head_mask=mask).square().mean(), mask)
    found = importance(layer, lambda: layer(x).square().mean())
    torch.testing.assert_close(found.predicted[0].float(), -slope, atol=CLOSE, rtol=CLOSE)
    lost = [layer(x, head_mask=1 - one).square().mean() - layer(x).square().mean() for one in torch.eye(2)]
    torch.testing.assert_close(found.actual[0].float(), torch.stack(lost).detach(), atol=CLOSE, rtol=CLOSE)


@torch.no_grad()
def test_even_attention_also_gains_evenly_from_who_reads():
    layer, x = given("Shaw")
    calls = []
    with watch(layer, calls.append):
        layer(x)
    v, at = calls[0].v[:, 1].double(), torch.arange(24)
    even = torch.ones(24, 24).tril().double()
    even /= even.sum(-1, keepdim=True)
    entry = (at - at[:, None]).clamp(-3, 3) + 3
    wanted = even @ v + (even[..., None] * layer.position.value_table.double()[entry]).sum(1)
    found = Uniform()(calls[0], [1])
    torch.testing.assert_close(found[:, 0].double(), wanted, atol=CLOSE, rtol=0)


@torch.no_grad()
def test_two_watchers_each_see_the_call_once():
    layer, x = given("ALiBi")
    first, second = [], []
    want = layer(x)
    with watch(layer, first.append), watch(layer, second.append):
        assert torch.equal(layer(x), want)
    assert [call.kind for call in (*first, *second)] == ["headwise", "headwise"]
    with record(layer) as recording, ablate(layer, "0.0"):
        layer(x)
    assert recording.layers[""].calls == 1


@torch.no_grad()
def test_a_mode_for_another_purpose_stays_on_inside_attention():
    x, devices = torch.randn(1, 1, 3, 4), []

    def bias(q, k, rows, columns, visible):
        devices.append(torch.empty(1).device.type)
        return torch.zeros(1, 1, 3, 3, device="cpu")

    model = torch.nn.Identity()
    model.forward = lambda x: attention(x, x, x, bias=bias)
    with torch.device("meta"):
        model(x)
        with watch(model, lambda call: None) as coverage:
            model(x)
    assert coverage.calls == 1
    assert devices == ["meta", "meta"]


@pytest.mark.parametrize("name", ["plain", "sinks", "Shaw"])
@torch.no_grad()
def test_a_layer_compiles_whole_before_and_after_it_is_watched(name):
    torch._dynamo.reset()
    layer, x = given(name)
    run = torch.compile(layer, backend="eager", fullgraph=True)
    want = run(x)
    seen(layer, x)
    assert torch.equal(run(x), want)
    torch._dynamo.reset()


@pytest.mark.parametrize(("name", "backend"), [("plain", "eager"), ("sinks", "eager"), ("ALiBi", "eager")])
@torch.no_grad()
def test_compiled_code_is_seen_where_it_calls_the_kernel_plainly_and_else_named(name, backend):
    torch._dynamo.reset()
    layer, x = given(name)
    model = torch.nn.Sequential(layer)
    run = torch.compile(model, backend=backend, fullgraph=True)
    want, calls = run(x), []
    with watch(model, calls.append, verify=True) as coverage:
        for _ in range(2):
            assert torch.equal(run(x), want)
    if name == "plain":
        assert [(call.kind, call.q.shape[2], call.k.shape[2]) for call in calls] == [("fused", 24, 24)] * 2
        assert coverage.complete
    else:
        assert not calls
        (reason,) = coverage.unseen
        assert reason.startswith("0 (MultiHeadAttention) looks like attention; if compiled code ran it")
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@torch.no_grad()
def test_under_vmap_a_plain_call_is_seen_and_another_is_named():
    for name in ("plain", "softcap", "sinks"):
        layer, x = given(name)
        calls = []
        with watch(layer, calls.append, verify=True) as coverage:
            torch.vmap(layer)(x[:, None])
        if name == "plain":
            assert [tuple(call.q.shape) for call in calls] == [(2, 2, 24, 8)]
            assert coverage.complete
            assert coverage.largest_difference <= CLOSE
        else:
            assert not calls
            assert any("torch.vmap" in reason for reason in coverage.unseen)
    with pytest.raises(HeadwiseError, match=r"torch\.vmap"), ablate(layer, "0.0"):
        torch.vmap(layer)(x[:, None])
