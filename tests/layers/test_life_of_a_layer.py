"""Saving, copying, casting, building without memory, autocast and compiling keep a layer what it is."""

import copy
import io

import pytest
import torch

from headwise.core import Causal, Padding
from headwise.layers import GatePerHead, MultiHeadAttention, NormAfterRotation, Sinks
from tests.layers.encodings import ENCODINGS

every_encoding = pytest.mark.parametrize("name", ENCODINGS)


def build(name, **kwargs):
    return MultiHeadAttention(
        8, 4, kv_heads=2, position=ENCODINGS[name](8, 4), mask=Causal(), **kwargs
    ).eval()


@every_encoding
def test_state_dict_round_trip(name):
    layer, other = build(name), build(name)
    x = torch.randn(2, 5, 8)
    assert not torch.equal(layer(x), other(x))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(layer(x), other(x))


def test_its_face_says_how_it_was_built():
    face = repr(MultiHeadAttention(8, 4, kv_heads=2, mask=Causal(), dropout=0.1))
    assert "model_dim=8, heads=4, kv_heads=2, mask=causal, dropout=0.1" in face


def test_only_parameters_are_saved():
    """No tables, no buffers: nothing that a cast could round or a longer input outgrow."""
    for name in ENCODINGS:
        layer = build(name)
        assert set(layer.state_dict()) == {key for key, _ in layer.named_parameters()}
        assert not list(layer.buffers())


@every_encoding
def test_a_deep_copy_is_equal_and_apart(name):
    layer = build(name)
    twin = copy.deepcopy(layer)
    x = torch.randn(2, 5, 8)
    before = layer(x)
    assert torch.equal(twin(x), before)
    torch.nn.init.zeros_(twin.query.weight)
    assert torch.equal(layer(x), before)


@every_encoding
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_cast(name, dtype):
    layer = build(name).to(dtype)
    output, weights = layer.with_weights(torch.randn(2, 5, 8).to(dtype))
    assert output.dtype == dtype
    assert weights.dense().dtype == torch.promote_types(dtype, torch.float32)
    assert output.isfinite().all()


@every_encoding
def test_an_empty_batch_gives_an_empty_output(name):
    """As the last batch of a filtered data set can be."""
    x = torch.randn(0, 5, 8, requires_grad=True)
    output, weights = build(name).with_weights(x)
    assert output.shape == (0, 5, 8)
    assert weights.dense().shape == weights.shape == (0, 4, 5, 5)
    output.sum().backward()
    assert x.grad.shape == (0, 5, 8)


@every_encoding
def test_a_sequence_of_no_tokens_gives_one_of_no_tokens(name):
    output, weights = build(name).with_weights(torch.randn(2, 0, 8))
    assert output.shape == (2, 0, 8)
    assert weights.dense().shape == weights.shape == (2, 4, 0, 0)


@every_encoding
def test_built_on_meta_then_filled(name):
    with torch.device("meta"):
        layer = build(name)
    shapes = layer(torch.empty(2, 5, 8, device="meta"))
    assert shapes.shape == (2, 5, 8)
    layer.to_empty(device="cpu")
    for parameter in layer.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    layer.reset_parameters()  # of all it was given, too
    twin = build(name)
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, 8)
    assert torch.equal(layer(x), twin(x))
    assert layer(x).isfinite().all()
    assert not layer.query.bias.any()


def test_building_a_layer_leaves_its_encoding_as_it_was_and_resetting_draws_all_anew():
    position, norm, gate = ENCODINGS["t5"](8, 4), torch.nn.RMSNorm(2), GatePerHead(8, 4)
    table = position.table.detach().clone()
    torch.nn.init.constant_(norm.weight, 3.0)
    layer = MultiHeadAttention(
        8, 4, position=position, head_norm=NormAfterRotation(norm, norm), sinks=Sinks(4), gate=gate
    )
    assert torch.equal(position.table, table)
    assert norm.weight.eq(3.0).all()
    before = gate.projection.weight.detach().clone()
    torch.nn.init.constant_(layer.sinks.logits, 5.0)
    layer.reset_parameters()
    assert not torch.equal(position.table, table)
    assert not torch.equal(gate.projection.weight, before)
    assert norm.weight.eq(1.0).all()
    assert not layer.sinks.logits.any()


@every_encoding
def test_autocast_rounds_as_bfloat16_does(name):
    """Its products are bfloat16, positions and scores are not: the error is some roundings of 2^-8.

    Words are 0.3 in size, so that scores are below 1 and a rounding of 2^-8 in them stays one in the weights.
    Then six roundings meet: input, weight, product, attention's two, output.
    """
    layer = build(name)
    x = 0.3 * torch.randn(2, 300, 8)
    with torch.no_grad():
        plain = layer(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = layer(x)
            attended = layer.with_weights(x)
    assert output.dtype == torch.bfloat16
    assert torch.equal(attended.output, output)
    if name != "integers":  # whose numbers drown in their own size
        assert (output - plain).abs().max() <= 6 * 2**-8 * plain.abs().max()


@every_encoding
def test_compiled_whole_equals_eager(name):
    """One graph, no breaks; the arithmetic is the same but for the order of a few float32 operations."""
    layer = build(name)
    x = torch.randn(2, 6, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    padding = Padding(torch.tensor([[False] + [True] * 5, [True] * 6]))
    for mask in (None, padding):
        output, eager = compiled(x, mask=mask), layer(x, mask=mask)
        torch.testing.assert_close(
            output, eager, rtol=0.0, atol=20 * 2**-24 * float(eager.detach().abs().max())
        )
    torch.compiler.reset()
