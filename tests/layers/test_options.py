"""Each option of the layer against `reference.py` in float64, on every path, and what each promises.

The survey's public faults of "heads, scale, dropout, dtype", and the test that would have caught each:

    entry   fault                                           test
    59      NaN from rows without keys                      test_a_row_that_sees_nothing_gives_the_bias
    79      tiled instead of blocked key/value heads        test_a_key_value_head_reaches_its_block_of_queries
    81      scores divided by another number                test_a_score_is_scaled_once_by_the_head_dim
    82      dropout in evaluation                           test_dropout_acts_in_training_alone
    83      dropout never applied                           test_dropout_acts_in_training_alone
    84      a seeded layer that cannot be repeated          test_dropout_is_repeatable_and_two_calls_differ
    86      softcap in bfloat16                             test_bfloat16_within_its_roundings
    88      silent fallback to a slow kernel                test_which_options_stay_on_the_fused_kernel
    89      norm on the wrong side of the rotation          test_the_two_orders_of_norm_and_rotation_differ
"""

import copy
import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from headwise import check
from headwise.core import Causal, Padding, SlidingWindow, kernel
from headwise.layers import MultiHeadAttention, NormBeforeRotation, Rotary
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


def test_a_key_value_head_reaches_its_block_of_queries():
    layer, x = layer_of("none", 12, 6, kv_heads=2), words(1, LENGTH, 12)
    before = layer.per_head(x)
    with torch.no_grad():
        layer.value.bias.view(2, 2)[0] += 1.0
    moved = (layer.per_head(x) - before).abs().amax((0, 2, 3)) > 0.5
    assert moved.tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("head_dim", [16, 64])
def test_a_score_is_scaled_once_by_the_head_dim(head_dim):
    """Two keys whose scores differ by ``a^2 / sqrt(head_dim)``: the ratio of their weights says the scale."""
    layer = MultiHeadAttention(head_dim, 1, bias=False).double()
    for projection in (layer.query, layer.key):
        nn.init.eye_(projection.weight)
    x = torch.zeros(1, 2, head_dim, dtype=torch.float64)
    x[0, 0, 0] = a = 3.0
    weights = layer.with_weights(x).weights.dense()[0, 0, 0]
    assert math.log(weights[0] / weights[1]) == pytest.approx(a * a / head_dim**0.5, rel=1e-12)


@every_option
def test_dropout_acts_in_training_alone(option):
    layer, x = layer_of(option), words(2, 6, 8)
    dropping = copy.deepcopy(layer)
    dropping.dropout = 0.5
    assert torch.equal(dropping(x), dropping(x))
    torch.testing.assert_close(dropping(x), layer(x), **EXACT)
    assert not torch.equal(dropping.train()(x), dropping(x))


@pytest.mark.parametrize("option", ["none", "sinks", "wide values"])
def test_dropout_keeps_the_mean_and_never_touches_the_sink(option):
    """Kept weights grow by ``1 / (1 - rate)``: over many draws the mean is the plain output.

    A head's output is bounded by the largest value, times 2 under dropout of one half; the mean of 2,000
    independent draws with a deviation of at most that is within 6 / sqrt(2000) = 0.14 of it, six deviations.
    """
    layer = layer_of(option)
    x = words(1, 3, 8).expand(2000, -1, -1)
    plain = layer.per_head(x[:1])[0]
    layer.dropout = 0.5
    values = layer.value(x[:1]).abs().max()
    mean = layer.train().per_head(x).mean(0)
    assert (mean - plain).abs().max() <= 0.14 * values


def test_dropout_is_repeatable_and_two_calls_differ():
    layer, x = MultiHeadAttention(8, 2, dropout=0.5).train(), torch.randn(2, 6, 8)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)


@every_option
def test_bfloat16_within_its_roundings(option):
    """Against the reference on the same rounded weights and words; u = 2^-8 is one rounding.

    Queries and keys carry 3 u each (projection, norm, turn) and scores 6 u S, with S the largest
    |q| |k| times the scale; a cap's slope is at most 1. Weights are off by twice that, values by u, attention
    by 3 u more, a gate by 4 u (its logit is below 4 here, and its slope a quarter of what it is applied to,
    so 4 u / 4 + u, twice over) and the mixture by u of its result and of its bias.
    """
    layer = layer_of(option, 16, 4).to(torch.bfloat16)
    x = 0.5 * words(1, 24, 16).to(torch.bfloat16)
    output = layer(x, mask=Causal())[0].double()
    exact = copy.deepcopy(layer).double()
    visible = torch.ones(24, 24).tril().bool().numpy()
    wanted = whole(exact, x[0].double(), visible=visible)
    positions = torch.arange(24)
    q, k = (p(x.double()).unflatten(-1, (4, 4)).transpose(1, 2) for p in (exact.query, exact.key))
    if exact.head_norm is not None:
        q, k = exact.head_norm.query(q), exact.head_norm.key(k)
    s = abs(exact.scale) * q.norm(dim=-1).amax() * k.norm(dim=-1).amax()
    v = exact.value(x.double()).unflatten(-1, (4, -1)).transpose(1, 2)
    weights = exact.with_weights(x.double(), mask=Causal(), positions=positions).weights.dense()
    average = (weights @ v.abs()).transpose(1, 2).flatten(-2)[0]
    heads = (12 * s + 4 + 4) * average @ exact.output.weight.abs().T
    bound = 2.0**-8 * (heads + 2 * wanted.abs() + exact.output.bias.abs())
    assert ((output - wanted).abs() <= bound).all()


def test_the_cap_is_taken_in_float32():
    """Scores near 40 under a cap of 50: in bfloat16 the cap alone would round them by 0.125.

    The cap flattens what is left, so weights computed from float32 scores agree with float64's to 2^-8 in
    the output, while scores rounded by 0.125 move weights by 12 percent.
    """
    layer = MultiHeadAttention(8, 1, softcap=50.0, bias=False).to(torch.bfloat16)
    for projection in (layer.query, layer.key, layer.value, layer.output):
        nn.init.eye_(projection.weight)
    x = torch.zeros(1, 2, 8)
    x[0, 0, 0], x[0, 1, 0], x[0, 1, 1] = 12.0, 11.9375, 1.0
    x = x.to(torch.bfloat16)
    exact = copy.deepcopy(layer).double()(x.double())
    assert ((layer(x).double() - exact).abs() <= 3 * 2.0**-8 * exact.abs() + 1e-6).all()


def test_the_two_orders_of_norm_and_rotation_differ():
    """With a weight for each dimension they are different functions; with equal weights the same."""
    before, x = layer_of("norm before"), words(2, LENGTH, 8)
    after = layer_of("norm after")
    after.load_state_dict(before.state_dict())
    assert (before(x) - after(x)).abs().max() > 1e-3
    for layer in (before, after):
        nn.init.ones_(layer.head_norm.query.weight)
        nn.init.ones_(layer.head_norm.key.weight)
    torch.testing.assert_close(before(x), after(x), **EXACT)


def test_which_options_stay_on_the_fused_kernel(monkeypatch):
    """Softcap alone needs its scores; sinks, norms, gates and other value widths do not."""
    called = []
    run = kernel.scaled_dot_product_attention
    monkeypatch.setattr(
        kernel,
        "scaled_dot_product_attention",
        lambda *args, **kwargs: called.append(1) or run(*args, **kwargs),
    )
    fused = {}
    for option in OPTIONS:
        called.clear()
        layer_of(option)(words(2, LENGTH, 8), mask=Causal())
        fused[option] = len(called)
    assert fused == {option: 0 if option in ("softcap", "all") else 1 for option in OPTIONS}


@every_option
def test_options_change_the_output(option):
    """An option that did nothing would pass many a test: all but none move the output of the same weights."""
    layer, plain, x = layer_of(option), layer_of("none"), words(2, LENGTH, 8)
    if layer.value_dim != plain.value_dim:
        return
    plain.load_state_dict(layer.state_dict(), strict=False)
    assert ((layer(x) - plain(x)).abs().max() > 1e-3) == (option != "none")


@pytest.mark.parametrize("option", ["sinks", "all"])
def test_compiled_equals_eager(option):
    layer, x = layer_of(option).float(), words(2, 6, 8).float()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    eager = layer(x, mask=Causal())
    largest = float(eager.detach().abs().max())
    # the same arithmetic but for the order of a few float32 operations
    torch.testing.assert_close(compiled(x, mask=Causal()), eager, rtol=0.0, atol=20 * 2**-24 * largest)
    torch.compiler.reset()


@pytest.mark.parametrize("option", ["norm before", "norm after", "sinks", "gate per head", "all"])
def test_check_finds_nothing(option):
    """The room `check` knows nothing of these layers: it calls them and watches."""
    given = OPTIONS[option](16, 2, 8)
    layer = MultiHeadAttention(16, 2, position=Rotary(), mask=Causal(), **given)
    claims = "causal" if option == "norm after" else "causal relative"
    assert [outcome.name for outcome in check.layer(layer, expect=claims).failures] == []


def test_a_weighted_norm_after_the_rotation_is_not_relative():
    """The weight and the turn do not commute; before it, or without a weight, they need not."""
    x, at = words(1, LENGTH, 8), torch.arange(LENGTH)
    for option, weighted in (("norm before", True), ("norm after", True), ("norm after", False)):
        layer = layer_of(option)
        if not weighted:
            nn.init.ones_(layer.head_norm.query.weight)
            nn.init.ones_(layer.head_norm.key.weight)
        moved = (layer(x, positions=at + 17) - layer(x)).abs().max()
        assert (moved > 1e-3) == (option == "norm after" and weighted)
        assert moved > 1e-3 or moved < 1e-11


def test_a_norm_may_be_any_module():
    layer = MultiHeadAttention(
        8, 2, position=Rotary(), head_norm=NormBeforeRotation(nn.LayerNorm(4), nn.Identity())
    )
    assert layer(torch.randn(2, 3, 8)).shape == (2, 3, 8)
