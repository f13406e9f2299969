"""Each option of the layer against `reference.py` in float64, on every path, with every mask."""

import pytest
import torch
from torch.autograd import gradcheck

from headwise.core import Causal, Padding, SlidingWindow
from tests.core.paths import force_small_blocks
from tests.layers.encodings import words
from tests.layers.options import OPTIONS, layer_of, per_head, whole

# Float64 on both sides, sums of at most 24 terms of size about 1 to 10, four products deep.
EXACT = {"rtol": 0.0, "atol": 1e-12}
LENGTH = 5
every_option = pytest.mark.parametrize("option", OPTIONS)
KEEP = torch.tensor([[False, True, True, False, True], [True] * LENGTH])
MASKS = {
    "all": (None, torch.ones(2, LENGTH, LENGTH, dtype=torch.bool)),
    "causal": (Causal(), torch.ones(2, LENGTH, LENGTH, dtype=torch.bool).tril()),
    "padding": (Padding(KEEP), KEEP[:, None].expand(2, LENGTH, LENGTH)),
    "causal & padding": (Causal() & Padding(KEEP), KEEP[:, None].expand(2, LENGTH, LENGTH).tril()),
    "window": (SlidingWindow(2), torch.ones(2, LENGTH, LENGTH, dtype=torch.bool).tril().triu(-1)),
}
every_mask = pytest.mark.parametrize("mask", MASKS)


@every_option
@every_mask
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_against_the_reference(option, mask, kv_heads):
    layer = layer_of(option, kv_heads=kv_heads)
    x, (given, visible) = words(2, LENGTH, 8), MASKS[mask]
    for row, output in enumerate(layer(x, mask=given)):
        torch.testing.assert_close(output, whole(layer, x[row], visible=visible[row].numpy()), **EXACT)


@every_option
def test_in_blocks_of_single_queries_and_with_other_positions(monkeypatch, option):
    force_small_blocks(monkeypatch, rows=1)
    layer, x, positions = layer_of(option), words(2, LENGTH, 8), torch.tensor([3, 0, 7, 100, 2])
    output = layer(x, mask=SlidingWindow(3), positions=positions)
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril().triu(-2)
    wanted = whole(layer, x[0], positions=positions.numpy(), visible=visible.numpy())
    torch.testing.assert_close(output[0], wanted, **EXACT)


@every_option
@pytest.mark.parametrize("mask", ["all", "causal & padding"])
def test_the_map_and_the_values_rebuild_each_head(option, mask):
    """The map holds the weights that the heads used: sinks, softcap and norms included."""
    layer, x = layer_of(option, kv_heads=2), words(2, LENGTH, 8)
    output, weights = layer.with_weights(x, mask=MASKS[mask][0])
    assert torch.equal(output, layer(x, mask=MASKS[mask][0]))
    values = layer.value(x).unflatten(-1, (2, -1)).transpose(1, 2).repeat_interleave(2, dim=1)
    heads = weights.dense() @ values
    heads = heads if layer.gate is None else layer.gate(x, heads)
    torch.testing.assert_close(heads, layer.per_head(x, mask=MASKS[mask][0]), **EXACT)


@every_option
def test_heads_before_they_are_mixed(option):
    layer, x = layer_of(option, kv_heads=2), words(2, LENGTH, 8)
    heads, each = layer.per_head(x, mask=Causal()), layer.contributions(x, mask=Causal())
    assert heads.shape == (2, 4, LENGTH, layer.value_dim)
    visible = torch.ones(LENGTH, LENGTH).tril().bool().numpy()
    torch.testing.assert_close(heads[1], torch.from_numpy(per_head(layer, x[1], visible=visible)), **EXACT)
    assert each.shape == (2, 4, LENGTH, 8)
    torch.testing.assert_close(each.sum(1) + layer.output.bias, layer(x, mask=Causal()), **EXACT)


@every_option
@pytest.mark.parametrize("shape", ["heads", "batch heads", "1 heads"])
def test_a_head_mask_multiplies_what_heads_give(option, shape):
    layer, x = layer_of(option), words(2, LENGTH, 8)
    head_mask = {
        "heads": torch.tensor([1.0, 0.0, 0.5, -1.0]),
        "1 heads": torch.tensor([[1.0, 0.0, 0.5, -1.0]]),
        "batch heads": torch.tensor([[1.0, 0.0, 0.5, -1.0], [0.0, 1.0, 1.0, 0.0]]),
    }[shape]
    output = layer(x, head_mask=head_mask)
    for row in range(2):
        wanted = whole(layer, x[row], head_mask=head_mask.expand(2, 4)[row].double().numpy())
        torch.testing.assert_close(output[row], wanted, **EXACT)
    silenced = layer.per_head(x, head_mask=torch.tensor([0.0, 1.0, 1.0, 1.0]))
    assert not silenced[:, 0].any()


def test_a_head_mask_takes_a_gradient():
    """The loss's slope in a head's mask is its importance: what the output would lose with it."""
    layer, x = layer_of("none"), words(2, LENGTH, 8)
    head_mask = torch.ones(4, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(x, head_mask=head_mask).sum(), head_mask)
    torch.testing.assert_close(slope, layer.contributions(x).sum((0, 2, 3)), **EXACT)


@every_option
@pytest.mark.parametrize("mask", ["all", "causal & padding"])
def test_gradients_against_finite_differences(option, mask):
    layer = layer_of(option, 4, 2, kv_heads=1)
    x = words(2, LENGTH, 4).requires_grad_()
    given = MASKS[mask][0]
    leaves = [x, *layer.parameters()]
    assert gradcheck(lambda x, *_: layer(x, mask=given), leaves, atol=1e-6, fast_mode=True)


@every_option
def test_every_parameter_of_an_option_learns(option):
    layer, x = layer_of(option), words(2, LENGTH, 8)
    layer(x, mask=Causal()).square().sum().backward()
    # a bias of the keys moves all scores of a query alike, which only a turn, a cap or a sink notices
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())


@every_option
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_a_row_that_sees_nothing_gives_the_bias(monkeypatch, option, dtype, small_blocks):
    """To the last bit, and passes no gradient: with sinks too, which then have all the weight."""
    if small_blocks:
        force_small_blocks(monkeypatch)
    layer = layer_of(option).to(dtype)
    x = words(2, LENGTH, 8).to(dtype).requires_grad_()
    keep = torch.ones(2, LENGTH, dtype=torch.bool)
    keep[0] = False
    for mask in (Padding(keep), Padding(keep) & Causal(), Padding(keep) & SlidingWindow(2)):
        output = layer(x, mask=mask)
        assert torch.equal(output[0], layer.output.bias.expand_as(output[0]))
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        assert not gradient[0].any()
        assert gradient.isfinite().all()
