"""nn.MultiheadAttention and the layers on it: seen in every mode, with outputs and weights unchanged."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn

from tests.look.models import seen

MASKS = {
    "none": {},
    "padding": {"key_padding_mask": torch.tensor([[False] * 5, [False, False, False, True, True]])},
    "causal": {"attn_mask": nn.Transformer.generate_square_subsequent_mask(5)},
    "boolean per head": {"attn_mask": torch.rand(8, 5, 5, generator=torch.Generator().manual_seed(3)) > 0.9},
    "both": {
        "key_padding_mask": torch.tensor([[False] * 5, [False, False, False, True, True]]),
        "attn_mask": torch.ones(5, 5).triu(1).bool(),
    },
    "causal flag": {"attn_mask": nn.Transformer.generate_square_subsequent_mask(5), "is_causal": True},
}
# P in float32: products of 4 terms and sums of 5, with the scale applied in another place: 40 roundings
EXACT = 40 * torch.finfo(torch.float32).eps


@contextmanager
def no_fast_path():
    """As torch runs when it is watched."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_every_mode_of_the_layer(masks, need_weights, train, batch_first):
    layer = nn.MultiheadAttention(16, 4, batch_first=batch_first).train(train)
    x = torch.randn(2, 5, 16) if batch_first else torch.randn(5, 2, 16)
    with no_fast_path():
        calls, coverage = seen(
            layer, x, x, x, need_weights=need_weights, average_attn_weights=False, **MASKS[masks]
        )
    (call,) = calls
    assert (call.kind, call.q.shape) == ("multi_head_attention_forward", (2, 4, 5, 4))
    assert coverage.complete
    assert coverage.largest_difference <= EXACT
    with torch.no_grad(), no_fast_path():
        _, weights = layer(x, x, x, average_attn_weights=False, **MASKS[masks])
    torch.testing.assert_close(call.weights(), weights, atol=EXACT, rtol=0)


def test_training_with_dropout_gives_the_weights_before_dropout():
    layer = nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True)
    x = torch.randn(2, 5, 16)
    (call,), _ = seen(layer, x, x, x, average_attn_weights=False)
    assert call.dropout == 0.5
    torch.testing.assert_close(call.weights().sum(-1), torch.ones(2, 4, 5))
    (call,), _ = seen(layer, x, x, x, need_weights=False)
    assert call.dropout == 0.5


def test_cross_attention_other_widths_added_keys_and_no_batch():
    q, memory = torch.randn(2, 3, 16), torch.randn(2, 7, 12)
    layer = nn.MultiheadAttention(16, 4, kdim=12, vdim=12, batch_first=True)
    assert seen(layer, q, memory, memory)[0][0].k.shape == (2, 4, 7, 4)
    layer = nn.MultiheadAttention(16, 4, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    for need_weights in (True, False):
        (call,), coverage = seen(layer, q, q, q, need_weights=need_weights)
        assert call.k.shape == (2, 4, 5, 4)
        assert coverage.largest_difference <= EXACT
    x = torch.randn(5, 16)
    assert seen(layer, x, x, x)[0][0].q.shape == (1, 4, 5, 4)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_the_encoder(grad, train, padded):
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).train(train)
    x = torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]]) if padded else None
    with no_fast_path():
        calls, coverage = seen(model, x, src_key_padding_mask=padding, grad=grad)
    assert [call.module for call in calls] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert [call.number for call in calls] == [0, 1]
    assert not coverage.fast_path_off
    assert coverage.largest_difference <= EXACT


def test_the_decoder_attends_twice_a_layer():
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    with no_fast_path():
        calls, coverage = seen(model, x, memory, tgt_mask=MASKS["causal"]["attn_mask"])
    names = [f"layers.{layer}.{part}" for layer in (0, 1) for part in ("self_attn", "multihead_attn")]
    assert [call.module for call in calls] == names
    assert [call.k.shape[2] for call in calls] == [5, 7, 5, 7]
    assert coverage.largest_difference <= EXACT


@pytest.mark.parametrize("make", [
    lambda: nn.MultiheadAttention(16, 4, batch_first=True),
    lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
    lambda: nn.TransformerDecoderLayer(16, 4, 32, batch_first=True),
])  # fmt: skip
def test_the_fast_path_steps_aside_and_the_coverage_says_so(make):
    from headwise.look import watch

    model, x = make().eval(), torch.randn(2, 5, 16)
    inputs = {nn.MultiheadAttention: 3, nn.TransformerEncoderLayer: 1, nn.TransformerDecoderLayer: 2}[
        type(model)
    ]
    with torch.no_grad():
        with no_fast_path():
            want = model(*[x] * inputs)
        with watch(model, lambda call: None) as coverage:
            got = model(*[x] * inputs)
    for first, second in zip(*(y if isinstance(y, tuple) else (y,) for y in (want, got)), strict=False):
        assert torch.equal(first, second)
    assert coverage.fast_path_off
    assert "fast path was off" in str(coverage)


def test_errors_are_torchs_own():
    from headwise.look import watch

    layer, x = nn.MultiheadAttention(16, 4), torch.randn(2, 5, 12)
    with pytest.raises(AssertionError, match="embedding dimension of 16, but got 12"), watch(layer, print):
        layer(x, x, x)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in layer.modules())
