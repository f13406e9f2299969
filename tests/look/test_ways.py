"""The ways a model can be run: what is seen in each, and what is named as unseen."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from headwise.look import watch
from tests.look.models import Split, Stack, by_hand, exact, fused, leaves, seen

EXACT = 40 * torch.finfo(torch.float32).eps


def x():
    return torch.randn(2, 5, 8)


def sees_two(run, model, given):
    """Watched twice, the output is the unwatched one, and both calls are seen with what they computed."""
    want, calls = run(given), []
    with watch(model, calls.append, verify=True) as coverage:
        got = run(given)
    assert exact(want, got)
    assert [call.module.rpartition(".")[2] for call in calls] == ["first", "second"]
    assert coverage.complete
    assert coverage.largest_difference <= EXACT
    assert all(call.q.shape == (2, 2, 5, 4) for call in calls)
    return calls


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_with_and_without_gradients(mode):
    model = Stack(fused)
    with mode():
        sees_two(model, model, x())


def test_under_autocast():
    model = Stack(fused)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        want, calls = model(x0 := x()), []
        with watch(model, calls.append) as coverage:
            assert torch.equal(model(x0), want)
    assert coverage.calls == 2


def test_functional_call_and_data_parallel():
    model = Stack(fused)
    sees_two(lambda y: torch.func.functional_call(model, dict(model.named_parameters()), (y,)), model, x())
    parallel = nn.DataParallel(model)
    sees_two(parallel, parallel, x())


def test_inside_a_function_with_its_own_gradient():
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q):
            return fused(q, q, q)

        @staticmethod
        def backward(ctx, grad):
            return grad

    (call,), _ = seen(Split(lambda q, k, v: Own.apply(q)), x(), grad=True)
    assert call.kind == "fused"


def test_a_traced_graph_of_torch_fx():
    model = torch.fx.symbolic_trace(Stack(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v)))
    calls, coverage = seen(model, x())
    assert len(calls) == 2
    assert coverage.largest_difference <= EXACT


def test_an_exported_program():
    program = torch.export.export(Stack(fused), (torch.zeros(2, 5, 8),)).module()
    calls, coverage = seen(program, x())
    assert len(calls) == 2
    assert coverage.largest_difference <= EXACT


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("how", ["trace", "script"])
def test_torchscript_is_named_as_unseen(how):
    class Scripted(nn.Module):
        def forward(self, y):
            return functional.scaled_dot_product_attention(y, y, y)

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            made = Scripted()
            self.inner = (
                torch.jit.trace(made, torch.zeros(2, 5, 8)) if how == "trace" else torch.jit.script(made)
            )

        def forward(self, y):
            return self.inner(y)

    model = Holder()
    for watched, name in ((model, "inner"), (model.inner, "the model")):
        calls, coverage = seen(watched, x())
        assert calls == []
        assert coverage.unseen == {f"{name} is a ScriptModule, which runs outside Python": 1}


@pytest.mark.filterwarnings("ignore:`torch.jit", "ignore:Iterating over a tensor")
def test_a_trace_made_while_watching_holds_nothing_of_ours():
    model = Stack(fused)
    with torch.no_grad():
        want = str(torch.jit.trace(model, torch.zeros(2, 5, 8), check_trace=False).inlined_graph)
        with watch(model, lambda call: None) as coverage:
            got = str(torch.jit.trace(model, torch.zeros(2, 5, 8), check_trace=False).inlined_graph)
    assert got.count("aten::") == want.count("aten::")
    assert coverage.calls == 0
    assert len(coverage.unseen) == 2


def test_another_thread_is_named_as_unseen():
    model, calls = Stack(fused), []
    with watch(model, calls.append) as coverage:
        thread = threading.Thread(target=model, args=(x(),))
        thread.start()
        thread.join()
    assert calls == []
    assert coverage.unseen == {"first ran in another thread": 1, "second ran in another thread": 1}


def test_what_is_hidden_from_modes_is_reported_by_its_module():
    def hidden(q, k, v):
        with torch._C.DisableTorchFunction():
            return fused(q, k, v)

    _, coverage = seen(Stack(hidden), x())
    assert len(coverage.unseen) == 2
    assert all("looks like attention, but made no call" in reason for reason in coverage.unseen)


@pytest.mark.parametrize("attend", [fused, by_hand])
@pytest.mark.parametrize("backward", ["tensor", "autograd"])
def test_recomputation_is_not_a_second_call(attend, backward):
    model, calls = Stack(attend), []
    given = x().requires_grad_()
    with watch(model, calls.append) as coverage:
        output = checkpoint(model, given, use_reentrant=False).sum()
        output.backward() if backward == "tensor" else torch.autograd.backward(output)
    assert len(calls) == coverage.calls == 2


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("attend", [fused, by_hand])
def test_vmap(attend):
    model, given = Split(attend), x()
    run = torch.vmap(lambda y: model(y[None])[0])
    want, calls = run(given), []
    with torch.no_grad(), watch(model, calls.append, verify=True) as coverage:
        assert torch.equal(run(given), want)
    (call,) = calls
    assert call.q.shape == (2, 2, 5, 4)
    assert (call.q + 1).shape == (2, 2, 5, 4)  # usable after vmap has ended
    assert coverage.largest_difference <= EXACT


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_over_heads_and_grad():
    def attend(q, k, v):
        return torch.vmap(lambda a, b, c: fused(a, b, c), in_dims=1, out_dims=1)(q, k, v)

    (call,), coverage = seen(Split(attend), x())
    assert coverage.largest_difference <= EXACT
    assert call.q.numel() == 2 * 2 * 5 * 4
    model, calls = Split(fused), []
    with watch(model, calls.append):
        torch.func.grad(lambda y: model(y).sum())(x())
    assert (calls[0].q + 1).shape == (2, 2, 5, 4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_jagged_nested_tensors():
    parts = [torch.randn(length, 8) for length in (5, 3)]
    flat = torch.nested.nested_tensor(parts, layout=torch.jagged)

    class Nested(nn.Module):
        def forward(self, y):
            y = y.unflatten(-1, (2, 4)).transpose(1, 2)
            return functional.scaled_dot_product_attention(y, y, y, scale=0.3).transpose(1, 2).flatten(2)

    calls, model = [], Nested()
    want = model(flat)
    with watch(model, calls.append, verify=True) as coverage:
        got = model(flat)
    assert all(torch.equal(a, b) for a, b in zip(want.unbind(), got.unbind(), strict=True))
    assert calls[0].q.shape == (2, 2, 5, 4)
    assert not calls[0].weights()[1, :, 3:].any()
    assert coverage.largest_difference <= EXACT


class Marked(torch.Tensor):
    """A user's subclass, which sees functions too."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Marked.seen += func is functional.scaled_dot_product_attention
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_users_tensor_subclass_still_sees_the_call():
    Marked.seen = 0
    model, calls = Stack(fused), []
    with torch.no_grad(), watch(model, calls.append) as coverage:
        output = model(x().as_subclass(Marked))
    assert isinstance(output, Marked)
    assert (Marked.seen, coverage.calls) == (2, 2)


@pytest.mark.parametrize("make", [
    lambda: Stack(fused), lambda: Stack(by_hand),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
])  # fmt: skip
def test_two_watchers_see_the_same(make):
    model, first, second = make(), [], []
    with watch(model, first.append, verify=True) as one, watch(model, second.append, verify=True) as two:
        model(x())
    assert [str(call) for call in first] == [str(call) for call in second]
    assert first
    assert (one.seen, one.unseen) == (two.seen, two.unseen)


def test_an_error_in_the_block_leaves_the_model_as_it_was():
    model, given = Stack(fused), x()
    want = model(given)
    for fail, wrong in ((lambda call: 1 / 0, given), (lambda call: None, torch.randn(2, 5, 7))):
        with pytest.raises((ZeroDivisionError, RuntimeError)), watch(model, fail):
            model(wrong)
        hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]
        assert hooks == []
        assert torch.overrides._get_current_function_mode() is None
        assert torch.equal(model(given), want)


def test_an_error_inside_the_model_does_not_shift_later_names():
    model, calls = Stack(fused), []
    with watch(model, calls.append):
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 5, 7))
        model(x())
    assert [call.module for call in calls] == ["first", "second"]


def test_a_module_that_runs_many_times_is_numbered_by_order():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Split(fused)

        def forward(self, y):
            for _ in range(12):
                y = self.layer(y)
            return y

    calls, coverage = seen(Shared(), x())
    assert [(call.number, call.module) for call in calls] == [(n, "layer") for n in range(12)]
    assert coverage.modules == {"layer": 12}


def test_no_attention_is_said():
    calls, coverage = seen(nn.Sequential(nn.Linear(8, 8), nn.GELU()), x())
    assert calls == []
    assert str(coverage) == (
        "Sequential: no attention at all: 0 calls, and no module that looks like attention ran"
    )


def test_leaves_sees_tensors():
    assert len(leaves({"a": [torch.zeros(1)], "b": None})) == 1
