"""One attention layer of each family, from its own state dict."""

import pytest
import torch

from headwise.core import Causal, SlidingWindow
from headwise.layers import T5Bias
from headwise.layers.conversion import (
    bert_attention,
    gpt2_attention,
    llama_attention,
    mpnet_attention,
    t5_attention,
)
from tests.layers.conversion.random_models import theirs

CLOSE = {"atol": 1e-13, "rtol": 0}  # float64, one layer, numbers of size 1
IN_FLOAT32 = {"atol": 2e-6, "rtol": 0}  # theirs turns by angles in float32: 2^-24 of numbers of size 4


def embedded(length=7):
    return torch.randn(2, length, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_bert():
    network = theirs("bert", attn_implementation="eager")
    part, x = network.encoder.layer[1].attention, embedded()
    mixed = part.output.dense(part.self(x)[0])
    torch.testing.assert_close(bert_attention(part.state_dict(), network.config)(x), mixed, **CLOSE)


@torch.no_grad()
def test_mpnet_with_the_bias_of_the_model():
    network = theirs("mpnet")
    part, x = network.encoder.layer[1].attention, embedded()
    ours = mpnet_attention(part.state_dict(), network.config)
    ours.position = T5Bias(4).double()
    ours.position.table.copy_(network.encoder.relative_attention_bias.weight)
    bias = network.encoder.compute_position_bias(x)
    torch.testing.assert_close(ours(x), part.attn(x, position_bias=bias)[0], **CLOSE)


@torch.no_grad()
def test_gpt2():
    network = theirs("gpt2", attn_implementation="eager")
    part, x = network.transformer.h[1].attn, embedded()
    ours = gpt2_attention(part.state_dict(), network.config)
    hidden = torch.full((7, 7), -1e300, dtype=torch.float64).triu(1)[None, None]
    torch.testing.assert_close(ours(x, mask=Causal()), part(x, attention_mask=hidden)[0], **CLOSE)


@pytest.mark.parametrize("family", ["llama", "llama, biases", "qwen2", "qwen2, windows", "qwen3", "mistral"])
@torch.no_grad()
def test_the_family_of_llama(family):
    network = theirs(family, attn_implementation="eager")
    part, x = network.model.layers[1].self_attn, embedded()
    ours = llama_attention(part.state_dict(), network.config, layer=1)
    hidden = torch.ones(7, 7).triu(1).bool()
    if isinstance(ours.mask, SlidingWindow):
        hidden = hidden | torch.ones(7, 7).tril(-ours.mask.window).bool()
    waves = network.model.rotary_emb(x, torch.arange(7)[None])
    out = part(x, position_embeddings=waves, attention_mask=-1e30 * hidden.double()[None, None])[0]
    torch.testing.assert_close(ours(x, mask=Causal()), out, **IN_FLOAT32)
    assert isinstance(ours.mask, SlidingWindow) == (family in ("qwen2, windows", "mistral"))


@torch.no_grad()
def test_t5_with_its_bias_and_without():
    network = theirs("t5")
    x = embedded()
    for part, bidirectional, mask in ((network.encoder, True, None), (network.decoder, False, Causal())):
        first, second = (part.block[number].layer[0].SelfAttention for number in (0, 1))
        ours = t5_attention(first.state_dict(), network.config, bidirectional=bidirectional)
        torch.testing.assert_close(ours(x, mask=mask), first(x)[0], **CLOSE)
        assert isinstance(ours.position, T5Bias)
        other = t5_attention(second.state_dict(), network.config)
        torch.testing.assert_close(other(x, mask=mask), second(x)[0], **CLOSE)


@torch.no_grad()
def test_a_layer_of_a_whole_model_is_the_same_layer():
    from headwise.layers.conversion import from_hugging_face

    network = theirs("qwen3")
    whole = from_hugging_face(network.state_dict(), network.config)
    alone = llama_attention(network.model.layers[1].self_attn.state_dict(), network.config)
    assert torch.equal(whole.stack.blocks[1].attention.layer(embedded()), alone(embedded()))
