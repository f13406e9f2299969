"""Importance of heads: slopes against autograd through gates in the model itself, changes against zeros."""

import pytest
import torch
from torch import nn

from headwise.core import HeadwiseError
from headwise.look import Head, importance, watch
from tests.look import circuits
from tests.look.models import Split, Stack, by_einsum, by_hand, fused

# float64 sums of some tens of terms near 1
CLOSE = {"atol": 1e-12, "rtol": 1e-10}


def gated(attend, gate):
    """The same attention with each head's output times its gate, in the model's own code."""
    return lambda q, k, v: attend(q, k, v) * gate[:, None, None]


def loss_of(model, given):
    return lambda: model(given).square().mean()


def case(attend):
    return Stack(attend).double(), torch.randn(2, 5, 8, dtype=torch.float64)


def by_gates(model, attend, loss):
    """dL/dg by autograd, and the change for each gate at 0."""
    gates = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    model.first.attend, model.second.attend = gated(attend, gates[0]), gated(attend, gates[1])
    whole = loss()
    slopes = torch.autograd.grad(whole, gates)[0]
    changes = torch.empty(2, 2, dtype=torch.float64)
    for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
        with torch.no_grad():
            gates[layer, head] = 0.0
            changes[layer, head] = loss() - whole
            gates[layer, head] = 1.0
    model.first.attend = model.second.attend = attend
    return slopes, changes, float(whole.detach())


@pytest.mark.parametrize("attend", [fused, by_hand, by_einsum])
def test_slopes_and_changes_are_those_of_gates_in_the_models_own_code(attend):
    model, given = case(attend)
    loss = loss_of(model, given)
    slopes, changes, whole = by_gates(model, attend, loss)
    found = importance(model, loss)
    torch.testing.assert_close(found.predicted, -slopes, **CLOSE)
    torch.testing.assert_close(found.actual, changes, **CLOSE)
    assert found.loss == pytest.approx(whole, rel=1e-12)
    assert (found.layers, found.heads) == (("first", "second"), (2, 2))
    assert found.noise <= 1e-12
    assert found.coverage.complete
    assert (found.predicted - found.actual).abs().max() > 1e-3  # a slope is not the change


@pytest.mark.parametrize("need_weights", [True, False])
def test_torchs_own_layer(need_weights):
    layer = nn.MultiheadAttention(16, 4, batch_first=True).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    found = importance(layer, lambda: layer(x, x, x, need_weights=need_weights)[0].square().sum())
    gate = torch.ones(4, dtype=torch.float64, requires_grad=True)
    weight = layer.out_proj.weight.detach() * gate.repeat_interleave(4)
    output, _ = torch.func.functional_call(layer, {"out_proj.weight": weight}, (x, x, x))
    (slopes,) = torch.autograd.grad(output.square().sum(), gate)
    torch.testing.assert_close(found.predicted[0], -slopes, **CLOSE)
    for head in range(4):
        columns = torch.ones(16, dtype=torch.float64)
        columns[4 * head : 4 * head + 4] = 0.0
        weight = layer.out_proj.weight.detach() * columns
        changed, _ = torch.func.functional_call(layer, {"out_proj.weight": weight}, (x, x, x))
        want = (changed.square().sum() - output.square().sum()).detach()
        torch.testing.assert_close(found.actual[0, head], want, **CLOSE)


def test_a_gradient_that_is_there_stays_and_none_comes():
    model, given = case(fused)
    frozen = model.first.qkv.bias.requires_grad_(False)
    importance(model, loss_of(model, given))
    assert all(parameter.grad is None for parameter in model.parameters())
    loss_of(model, given)().backward()
    before = [
        (p.requires_grad, p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()
    ]
    importance(model, loss_of(model, given))
    for parameter, (required, grad, numbers) in zip(model.parameters(), before, strict=True):
        assert parameter.requires_grad == required
        assert parameter.grad is grad
        assert grad is None or torch.equal(grad, numbers)
    assert frozen.grad is None


def test_a_model_whose_parameters_take_no_gradient_and_a_caller_who_turned_them_off():
    model, given = case(fused)
    want = importance(model, loss_of(model, given), heads=0)
    model.requires_grad_(False)
    with torch.no_grad():
        got = importance(model, loss_of(model, given), heads=0)
    torch.testing.assert_close(got.predicted, want.predicted, **CLOSE)
    assert not torch.isfinite(got.actual).any()


def test_which_heads_are_measured():
    model, given = case(fused)
    loss, handed = loss_of(model, given), []

    def each(heads):
        handed.append(tuple(heads))
        return iter(heads)

    every = importance(model, loss, each=each)
    assert handed == [(Head(0, 0), Head(0, 1), Head(1, 0), Head(1, 1))]
    assert torch.isfinite(every.actual).all()
    named = importance(model, loss, ["second:1", "0.0"], each=each)
    assert handed[1] == (Head(1, 1), Head(0, 0))
    assert torch.equal(named.actual.isnan(), torch.tensor([[False, True], [True, False]]))
    torch.testing.assert_close(named.actual[1, 1], every.actual[1, 1], **CLOSE)
    order = every.predicted.flatten().abs().argsort(descending=True)
    importance(model, loss, 3, each=each)
    assert handed[2] == tuple(Head(int(at) // 2, int(at) % 2) for at in order[:3])
    assert every.largest(1, measured=True)[0] == max(
        handed[0], key=lambda head: abs(every.actual[head.layer, head.head])
    )
    importance(model, loss, 0, each=each)
    assert len(handed) == 3


def test_many_passes_share_a_gate_and_many_calls_of_a_module_do_not():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Split(fused)

        def forward(self, y):
            return self.layer(y + self.layer(y))

    model, given = Shared().double(), torch.randn(2, 5, 8, dtype=torch.float64)
    once = importance(model, lambda: model(given).square().sum(), 0)
    twice = importance(model, lambda: model(given).square().sum() + model(given).square().sum(), 0)
    assert once.layers == ("layer", "layer#1")
    torch.testing.assert_close(twice.predicted, 2 * once.predicted, **CLOSE)


def test_layers_of_other_numbers_of_heads_leave_holes():
    model = nn.Sequential(Split(fused), Split(fused, heads=4))
    found = importance(model, loss_of(model, torch.randn(2, 5, 8)))
    assert found.heads == (2, 4)
    assert found.predicted.shape == (2, 4)
    assert torch.equal(found.actual.isnan(), torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool())
    assert torch.equal(found.predicted.isnan(), found.actual.isnan())
    assert len(found.largest(9)) == 6


def test_a_layer_that_does_not_reach_the_loss_has_no_slope():
    model, given = case(fused)
    found = importance(model, lambda: (model.first(given).square().sum(), model(given))[0])
    assert not found.predicted[1].any()
    assert not found.actual[1].any()
    assert found.predicted[0].all()


def test_half_precision_is_added_up_in_float32():
    model, given = Stack(fused).bfloat16(), torch.randn(4, 16, 8).bfloat16()
    whole, calls = model(given), []
    found = importance(model, lambda: model(given).float().square().mean())
    with watch(model, calls.append):
        assert torch.equal(model(given), whole)
    # of the last layer the slope is known: 2 mean(out^2) over the head's part, here in float64
    want = -2 * calls[1].output.double().square().sum(dim=(0, 2, 3)) / whole.numel()
    # every addend comes through one bfloat16 rounding of its gradient
    torch.testing.assert_close(found.predicted[1], want, atol=0, rtol=torch.finfo(torch.bfloat16).eps)
    many = importance(model, lambda: sum(model(given).float().square().mean() for _ in range(100)), 0)
    torch.testing.assert_close(many.predicted[1], 100 * want, atol=0, rtol=torch.finfo(torch.bfloat16).eps)
    assert found.loss == float(whole.detach().float().square().mean())


def test_a_model_that_is_random_shows_its_noise():
    model, given = nn.Sequential(nn.Dropout(0.5), Split(fused)), torch.randn(2, 5, 8)
    found = importance(model, loss_of(model, given), 1)
    assert found.noise > 1e-4
    assert f"two runs of the whole model differed by {found.noise:.1e}" in str(found)


def test_the_induction_circuit_is_found():
    circuit, tokens = circuits.induction(), circuits.repeated()

    def loss():
        logits = circuit.logits(tokens)[:, 12:-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1) / 12, tokens[:, 13:].flatten())

    found = importance(circuit, loss)
    assert set(found.largest(2, measured=True)) == {Head(0, 1), Head(1, 0)}
    assert (found.actual[[0, 1], [1, 0]] > 1.0).all()
    assert not found.actual[[0, 1], [0, 1]].any()
    lines = str(found).splitlines()
    assert lines[0].startswith("Circuit: loss ")
    assert lines[0].endswith("measured for 4 of 4 heads")
    assert (
        lines[-1]
        == "Circuit: 2 attention calls seen in 2 modules (2 fused), none missed as far as can be told"
    )


@pytest.mark.parametrize(
    ("loss", "match"),
    [
        (lambda model, x: model(x), "a tensor of one number, with a gradient, got float64 of shape"),
        (lambda model, x: model(x).sum().item(), r"with a gradient, got -?\d"),
        (lambda model, x: model(x).sum().detach(), "got a number without a gradient"),
        (lambda model, x: torch.zeros(()), "got a number without a gradient"),
        (lambda model, x: torch.no_grad()(model)(x).sum(), "must be made with gradients on, got one without"),
        (lambda model, x: torch.inference_mode()(model)(x).sum(), "made with gradients on"),
        (lambda model, x: None, "got None"),
    ],
)
def test_losses_that_say_nothing(loss, match):
    model, given = case(fused)
    with pytest.raises(HeadwiseError, match=match):
        importance(model, lambda: loss(model, given))


@pytest.mark.parametrize("heads", ["2.0", ["first:2"], [(0, 0), "third:0"], -1, True, 1.5])
def test_heads_that_are_not_there(heads):
    model, given = case(fused)
    with pytest.raises(HeadwiseError):
        importance(model, loss_of(model, given), heads)


def test_a_loss_without_attention():
    layer = nn.Linear(8, 8)
    found = importance(layer, lambda: layer(torch.randn(2, 8)).sum())
    assert (found.layers, found.predicted.numel()) == ((), 0)
    assert "no attention at all" in str(found)
