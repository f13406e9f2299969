"""What the layer promises of its options: dropout, precision, compiling, and what the room `check` finds.

Public faults of "heads, scale, dropout, dtype", and the test that would have caught each:

    entry   fault                                           test
    59      NaN from rows without keys                      test_options.py: test_a_row_that_sees_nothing_..
    79      tiled instead of blocked key/value heads        test_a_key_value_head_reaches_its_block_of_queries
    81      scores divided by another number                test_a_score_is_scaled_once_by_the_head_dim
    82      dropout in evaluation                           test_dropout_acts_in_training_alone
    83      dropout never applied                           test_dropout_acts_in_training_alone
    84      a seeded layer that cannot be repeated          test_dropout_is_repeatable_and_two_calls_differ
    86      softcap in bfloat16                             core: test_a_softcap_is_taken_in_float32
    88      silent fallback to a slow kernel                test_which_options_stay_on_the_fused_kernel
    89      norm on the wrong side of the rotation          test_the_two_orders_of_norm_and_rotation_differ
"""

import copy
import math

import pytest
import torch
from torch import nn

from headwise import check
from headwise.core import Causal, kernel
from headwise.layers import MultiHeadAttention, NormBeforeRotation, Rotary
from tests.layers.encodings import words
from tests.layers.options import OPTIONS, layer_of, whole

# Float64 on both sides, sums of at most 24 terms of size about 1 to 10, four products deep.
EXACT = {"rtol": 0.0, "atol": 1e-12}
LENGTH = 5
every_option = pytest.mark.parametrize("option", OPTIONS)


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
