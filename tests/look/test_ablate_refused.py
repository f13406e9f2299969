"""Never silently left: what cannot be removed is refused with its reason, and what is missing is named."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from headwise.core import HeadwiseError
from headwise.look import ablate, watch
from tests.look.models import Split, Stack, by_hand, fused


def x():
    return torch.randn(2, 5, 8)


def refused(run, model, heads="1.0", match="must be"):
    """The block raises, and the model is as before."""
    with pytest.raises(HeadwiseError, match=match), ablate(model, heads):
        run()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.overrides._get_current_function_mode() is None


@pytest.mark.parametrize("head", ["2.0", "third:0", ":0", "first#1:0"])
def test_a_layer_that_is_never_seen(head):
    model = Stack(fused)
    refused(lambda: model(x()), model, head, r"Layers that made one are 0 \(first\), 1 \(second\)")


@pytest.mark.parametrize("head", ["1.2", "second:2", "0.17"])
def test_a_head_out_of_range(head):
    model = Stack(fused)
    refused(
        lambda: model(x()),
        model,
        head,
        r"must be from 0 to 1, got (2|17)\. Layer [01] \((first|second)\) has 2",
    )


def test_many_layers_are_named_in_short():
    model = nn.Sequential(*[Split(fused) for _ in range(30)])
    refused(lambda: model(x()), model, "30.0", r"are 0 \(0\), 1 \(1\), 2 \(2\), \.\.\., 29 \(29\)")


def test_a_block_in_which_nothing_runs():
    refused(lambda: None, Stack(fused), "0.0", "There was no attention call at all")


def test_an_error_of_the_model_is_the_one_that_is_seen():
    model = Stack(fused)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), ablate(model, "7.0"):
        model(torch.randn(2, 5, 7))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("attend", [fused, by_hand])
def test_vmap_and_func(attend):
    model = Split(attend)
    refused(
        lambda: torch.vmap(lambda y: model(y[None])[0])(x()), model, "0.0", "under torch.vmap or torch.func"
    )
    refused(lambda: torch.func.grad(lambda y: model(y).sum())(x()), model, "0.0", "under torch.vmap")


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_of_a_layer_that_stays_as_it_is():
    model, given = nn.ModuleList((Split(fused), Split(fused))), x()
    with ablate(model, "1.0") as coverage:
        torch.vmap(lambda y: model[0](y[None])[0])(given)
        assert not model[1](given)[..., :4].any()
    assert coverage.changed == 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors():
    class Nested(nn.Module):
        def forward(self, y):
            y = y.unflatten(-1, (2, 4)).transpose(1, 2)
            return functional.scaled_dot_product_attention(y, y, y, scale=0.3)

    parts = [torch.randn(length, 8) for length in (5, 3)]
    given, model = torch.nested.nested_tensor(parts, layout=torch.jagged), Nested()
    refused(lambda: model(given), model, "0.0", "Its output is a NestedTensor")


@pytest.mark.parametrize("attend", [fused, by_hand])
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_that_runs_again(attend, reentrant):
    model, given = Stack(attend), x().requires_grad_()
    refused(
        lambda: checkpoint(model, given, use_reentrant=reentrant), model, "0.0", "A checkpoint runs it again"
    )
    with torch.no_grad(), ablate(model, "0.0") as coverage:  # nothing to run again for
        checkpoint(model, given, use_reentrant=False)
    assert coverage.changed == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("how", ["wrapped", "function"])
def test_compiled_code(backend, how):
    torch._dynamo.reset()
    model, given = Stack(fused), x()
    wrapped = torch.compile(model, backend=backend, fullgraph=True)
    run = wrapped if how == "wrapped" else torch.compile(lambda y: model(y), backend=backend, fullgraph=True)
    with torch.no_grad():
        want = run(given)
        refused(lambda: run(given), wrapped if how == "wrapped" else model, "0.0", "Compiled code made it")
        assert torch.equal(run(given), want)


def test_compiled_code_does_not_hide_an_error_of_the_block():
    torch._dynamo.reset()
    model, given = Stack(fused), x()
    run = torch.compile(lambda y: model(y), backend="aot_eager", fullgraph=True)
    with torch.no_grad(), pytest.raises(ZeroDivisionError), ablate(model, "0.0"):
        float(run(given).sum()) / 0


def test_compiled_code_by_hand_is_never_seen():
    torch._dynamo.reset()
    model, given = Stack(by_hand), x()
    run = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        refused(lambda: run(given), run, "0.0", "There was no attention call at all")


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torchscript():
    class Scripted(nn.Module):
        def forward(self, y):
            return functional.scaled_dot_product_attention(y, y, y)

    model = torch.jit.trace(Scripted(), torch.zeros(2, 5, 8))
    refused(lambda: model(x()), model, "0.0", "There was no attention call at all")
    model = Stack(fused)
    refused(lambda: torch.jit.trace(model, torch.zeros(2, 5, 8)), model, "0.0", "A trace of it is being made")


def test_another_thread():
    model = Stack(fused)

    def run():
        thread = threading.Thread(target=model, args=(x(),))
        thread.start()
        thread.join()

    refused(run, model, "0.0", "There was no attention call at all")


def test_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, q):
            return flex_attention(q, q, q)

    torch._dynamo.reset()
    model = torch.compile(Flex(), backend="eager", fullgraph=True)
    with torch.no_grad():
        refused(lambda: model(torch.randn(1, 2, 16, 8)), model, "0.0", "There was no attention call at all")


def test_probabilities_that_multiply_a_second_thing_are_named():
    model = Split(lambda q, k, v: (p := (q @ k.mT).softmax(-1)) @ v + p @ v.flip(2))
    with torch.no_grad(), ablate(model, "0.0") as coverage:
        model(x())
    assert coverage.changed == 1
    assert coverage.unseen == {"the model: its probabilities multiplied something beside the values": 1}


@pytest.mark.parametrize("attend", [fused, by_hand])
def test_a_change_of_another_shape(attend):
    model = Split(attend)
    with (
        pytest.raises(HeadwiseError, match=r"None or of shape \[2, 2, 5, 4\], got \[2, 2, 4, 5\]"),
        watch(model, lambda call: None, change=lambda call: call.output.mT),
    ):
        model(x())


def test_a_user_of_the_kernel_beside_the_model_is_left_alone():
    model, q = Stack(fused), torch.randn(1, 2, 5, 4)
    with ablate(model, "0.0") as coverage:
        model(x())
        fused(q, q, q)
    assert coverage.changed == 1
