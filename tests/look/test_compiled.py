"""Compiled models: they still run, in one more compilation, and are seen or named as unseen."""

import pytest
import torch
from torch import nn

from headwise.look import watch
from tests.look.models import Stack, by_hand, exact, fused

EXACT = 40 * torch.finfo(torch.float32).eps


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("how", ["wrapped", "original", "in place", "function"])
def test_calls_are_seen_and_one_compilation_is_added(backend, how):
    model, given = Stack(fused), torch.randn(2, 5, 8)
    options = {"backend": backend, "fullgraph": True}
    if how == "in place":
        model.compile(**options)
        watched = run = model
    elif how == "function":
        watched, run = model, torch.compile(lambda y: model(y), **options)
    else:
        run = torch.compile(model, **options)
        watched = run if how == "wrapped" else model
    with torch.no_grad():
        want, calls = run(given), []
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        with watch(watched, calls.append, verify=True) as coverage:
            for _ in range(2):
                assert exact(run(given), want)
        added = torch._dynamo.utils.counters["stats"]["unique_graphs"] - before
        assert exact(run(given), want)
    names = [call.module.removeprefix("_orig_mod.") for call in calls]
    assert names == ["first", "second"] * 2
    assert coverage.complete, coverage
    assert coverage.largest_difference <= EXACT
    assert added <= (2 if how == "function" else 1)  # a function has no hook that empties the list in between


@pytest.mark.parametrize("make", [
    lambda: Stack(by_hand),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0),
])  # fmt: skip
def test_compiled_models_that_do_not_call_the_kernel_run_and_are_named(make):
    model, given = make(), torch.randn(2, 5, 8)
    run = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        want = run(given)
        with watch(run, lambda call: None) as coverage:
            assert exact(run(given), want)
    assert coverage.calls == 0
    assert coverage.unseen
    assert all("compiled code" in reason for reason in coverage.unseen)


def test_flex_attention_is_named_as_unseen():
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, q):
            return flex_attention(q, q, q)

    q, model = torch.randn(1, 2, 16, 8), torch.compile(Flex(), backend="eager", fullgraph=True)
    with torch.no_grad():
        want = model(q)
        with watch(model, lambda call: None) as coverage:
            torch.testing.assert_close(model(q), want)
    assert coverage.unseen == {"flex_attention: no mask tensor": 1}
    assert coverage.calls == 0
