"""Removing heads: the same as a model written or weighted without them, in every style, to the last bit."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.look import Head, Mean, Zero, ablate, watch
from tests.look.models import Split, Stack, by_einsum, by_hand, exact, fused
from tests.look.test_fused import SPELLINGS


def x(length=5):
    return torch.randn(2, length, 8)


def without(attend, *heads):
    """The same attention with the output of some heads set to zero by hand."""

    def attended(q, k, v):
        output = attend(q, k, v)
        keep = torch.ones(output.shape[1]).index_fill(0, torch.tensor(heads), 0.0)
        return output * keep[:, None, None].to(output.dtype)

    return attended


def flat_bmm(q, k, v):
    q, k, v = (y.flatten(0, 1) for y in (q, k, v))
    return torch.bmm(torch.bmm(q, k.mT).softmax(-1), v).unflatten(0, (-1, 2))


def grouped(q, k, v):
    return functional.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)


def grouped_in_two_axes(q, k, v):
    """One key/value head for both query heads, which stand in an axis of their own."""
    return ((q[:, None] @ k[:, :1, None].mT).softmax(-1) @ v[:, :1, None]).flatten(1, 2)


def einsum_with_values_last(q, k, v):
    weights = torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1)
    return torch.einsum("bhjd,bhij->idhb", v, weights).permute(3, 2, 0, 1)


def windows_in_the_batch(q, k, v):
    cut = [y[:, :, :4].unflatten(2, (2, 2)).transpose(1, 2).flatten(0, 1) for y in (q, k, v)]
    joined = fused(*cut).unflatten(0, (-1, 2)).transpose(1, 2).flatten(2, 3)
    return torch.cat((joined, q[:, :, 4:]), dim=2)


def windows_in_an_axis(q, k, v):
    cut = [y[:, :, :4].unflatten(2, (2, 2)).transpose(1, 2) for y in (q, k, v)]
    return torch.cat((fused(*cut).transpose(1, 2).flatten(2, 3), q[:, :, 4:]), dim=2)


STYLES = {
    "fused": fused,
    "by hand": by_hand,
    "einsum": by_einsum,
    "einsum, values last": einsum_with_values_last,
    "bmm": flat_bmm,
    "grouped": grouped,
    "grouped in two axes": grouped_in_two_axes,
    **{f"fused, {name}": lambda q, k, v, how=how: how(q, k, v) for name, how in SPELLINGS.items()},
}


@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("style", STYLES)
def test_a_head_at_zero_is_the_model_written_without_it(style, head):
    model = Stack(STYLES[style])
    given = x()
    with torch.no_grad():
        plain = model(given)
        model.second.attend = without(STYLES[style], head)
        want = model(given)
        model.second.attend = STYLES[style]
        with ablate(model, [Head(1, head)]) as coverage:
            got = model(given)
        assert exact(got, want)
        assert not torch.equal(got, plain)
        assert torch.equal(model(given), plain)
    assert (coverage.calls, coverage.changed) == (2, 1)
    assert str(coverage).splitlines()[1] == "outputs changed in 1 of 2 calls"
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("attend", [windows_in_the_batch, windows_in_an_axis])
def test_windows_keep_their_places(attend):
    model, given = Split(attend), x()
    plain = model(given).detach()
    with torch.no_grad(), ablate(model, "0.1"):
        got = model(given)
    assert torch.equal(got[..., :4], plain[..., :4])  # head 0
    assert not got[:, :4, 4:].any()
    assert torch.equal(got[:, 4:], plain[:, 4:])  # outside the windows


def test_heads_without_a_batch_axis():
    model = Split(lambda q, k, v: fused(q[0], k[0], v[0])[None])
    given = torch.randn(1, 5, 8)
    plain = model(given).detach()
    with torch.no_grad(), ablate(model, "0.0"):
        got = model(given)
    assert not got[..., :4].any()
    assert torch.equal(got[..., 4:], plain[..., 4:])


def test_layers_go_by_number_and_by_name_and_many_heads_at_once():
    model, given = Stack(fused), x()
    model.first.attend, model.second.attend = without(fused, 1), without(fused, 0, 1)
    want = model(given)
    model.first.attend = model.second.attend = fused
    for heads in (
        ["0.1", "1.0", "1.1"],
        [("first", 1), Head("second", 0), (1, 1)],
        ["first:1", "1.0", "1.1"],
    ):
        with ablate(model, heads):
            assert torch.equal(model(given), want)
    with ablate(model, []) as coverage:
        assert torch.equal(model(given), Stack.forward(model, given))
    assert coverage.changed == 0


def test_a_module_that_runs_many_times_is_many_layers():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Split(fused)

        def forward(self, y):
            for at in range(4):
                self.layer.attend = without(fused, 0) if at in self.gone else fused
                y = y + self.layer(y)
            return y

    model, given = Shared(), x()
    model.gone = (2,)
    want = model(given)
    model.gone = ()
    for head in ("2.0", "layer#2:0"):
        with ablate(model, head):
            assert torch.equal(model(given), want)
            assert torch.equal(model(given), want)  # the next pass counts anew


@pytest.mark.parametrize("attend", [fused, by_hand, by_einsum])
def test_gradients_are_those_of_the_model_without_the_head(attend):
    model, given = Stack(attend), x()
    with ablate(model, "0.1"):
        model(given).square().sum().backward()
    got = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model.first.attend = without(attend, 1)
    model(given).square().sum().backward()
    assert all(torch.equal(p, q.grad) for p, q in zip(got, model.parameters(), strict=True))


@pytest.mark.parametrize("attend", [fused, by_hand, by_einsum])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_dtype_type_and_strides_are_those_of_the_model(attend, mode, dtype):
    seen = []

    def attended(q, k, v):
        seen.append(attend(q, k, v))
        return seen[-1]

    class Marked(torch.Tensor):
        pass

    model = Split(attended).to(dtype)
    given = x().to(dtype).as_subclass(Marked)
    with mode():
        model(given)
        with ablate(model, "0.0", to=Mean()):
            model(given)
    plain, changed = seen
    assert (changed.dtype, changed.stride(), type(changed)) == (dtype, plain.stride(), Marked)
    assert torch.equal(changed[:, 1], plain[:, 1])


def test_under_autocast():
    model, given = Stack(fused), x()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        with ablate(model, "1.0"):
            got = model(given)
        model.second.attend = without(fused, 0)
        assert torch.equal(got, model(given))


def test_a_product_that_names_its_result():
    def attend(q, k, v):
        buffer = torch.empty(2, 2, 5, 4)
        torch.matmul((q @ k.mT).softmax(-1), v, out=buffer)
        return buffer

    model = Split(attend)
    with torch.no_grad(), ablate(model, "0.1"):
        got = model(x())
    assert got[..., :4].all()
    assert not got[..., 4:].any()


@pytest.mark.parametrize("how", ["fx", "export"])
def test_graphs_that_run_in_plain_python(how):
    model, given = Stack(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v)), x()
    graph = torch.fx.symbolic_trace(model) if how == "fx" else torch.export.export(model, (given,)).module()
    with torch.no_grad():
        with ablate(graph, "1.0"):
            got = graph(given)
        model.second.attend = without(functional.scaled_dot_product_attention, 0)
        torch.testing.assert_close(got, model(given), atol=1e-6, rtol=0)  # float32 through two layers
        assert not got[..., :4].any()


def test_a_watcher_inside_the_block_sees_the_removed_head():
    model, inner, outer = Stack(fused), [], []
    with torch.no_grad(), watch(model, outer.append), ablate(model, "0.1"), watch(model, inner.append):
        model(x())
    assert not inner[0].output[:, 1].any()
    assert outer[0].output[:, 1].all()  # as it was computed


def test_zero_is_the_default():
    model, given = Stack(fused), x()
    with ablate(model, "0.0"):
        first = model(given)
    with ablate(model, "0.0", to=Zero()):
        assert torch.equal(model(given), first)
