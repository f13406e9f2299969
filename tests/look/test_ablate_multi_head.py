"""Heads removed from torch's own layers: the same as zero columns in the output projection."""

import pytest
import torch
from torch import nn

from headwise.look import ablate


def without_columns(layer, head, width):
    """An output projection that reads nothing of a head."""
    with torch.no_grad():
        layer.weight[:, head * width : (head + 1) * width] = 0.0


MASKS = {
    "none": {},
    "padding": {"key_padding_mask": torch.tensor([[False] * 5, [False, False, False, True, True]])},
    "causal": {"attn_mask": nn.Transformer.generate_square_subsequent_mask(5), "is_causal": True},
}


@pytest.fixture
def no_fast_path():
    """As torch runs when it is watched."""
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.usefixtures("no_fast_path")
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_layer(masks, need_weights, train, batch_first):
    layer = nn.MultiheadAttention(16, 4, batch_first=batch_first, dropout=0.3).train(train)
    given = torch.randn(2, 5, 16) if batch_first else torch.randn(5, 2, 16)
    options = {"need_weights": need_weights, **MASKS[masks]}
    torch.manual_seed(3)
    with ablate(layer, ["0.2"]):
        got, weights = layer(given, given, given, **options)
    without_columns(layer.out_proj, 2, 4)
    torch.manual_seed(3)
    want, same = layer(given, given, given, **options)
    assert torch.equal(got, want)
    assert weights is None or torch.equal(weights, same)


@pytest.mark.usefixtures("no_fast_path")
@pytest.mark.parametrize("grad", [True, False])
def test_torchs_encoder_and_decoder(grad):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 2).eval()
    given, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    with torch.set_grad_enabled(grad):
        with ablate(encoder, "1.3"):
            got = encoder(given)
        without_columns(encoder.layers[1].self_attn.out_proj, 3, 4)
        assert torch.equal(got, encoder(given))
        with ablate(decoder, ["layers.1.multihead_attn:2", "0.1"]):
            got = decoder(given, memory)
        without_columns(decoder.layers[1].multihead_attn.out_proj, 2, 4)
        without_columns(decoder.layers[0].self_attn.out_proj, 1, 4)
        assert torch.equal(got, decoder(given, memory))


def test_the_fast_path_steps_aside_and_the_coverage_says_so():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    with torch.no_grad(), ablate(layer, "0.1") as coverage:
        layer(torch.randn(2, 5, 16))
    assert coverage.fast_path_off
    assert coverage.changed == 1
