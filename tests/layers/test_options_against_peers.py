"""Options of the layer against the code of models that have them, with the same weights, in float64."""

import pytest
import torch
from torch import nn
from transformers import Gemma2Config, GptOssConfig, Qwen3Config
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from headwise.core import Causal, Padding
from headwise.layers import MultiHeadAttention, NormBeforeRotation, Rotary, Sinks
from tests.layers.encodings import words

# Float64 on both sides; the peers' angles are float32, off by 1e-7 of 1 at the few positions here.
CLOSE = {"rtol": 0.0, "atol": 1e-11}
LENGTH, WIDTH = 7, 12
SIZES = {
    "hidden_size": WIDTH,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "num_hidden_layers": 1,
    "attn_implementation": "eager",
    "layer_types": ["full_attention"],
}
OURS = {"kv_heads": 2, "head_dim": 6, "position": Rotary(), "mask": Causal()}
HIDDEN = torch.full((LENGTH, LENGTH), -torch.inf, dtype=torch.float64).triu(1)[None, None]


def copied(layer, peer):
    """Our layer with the peer's projections, drawn wide enough for every option to show."""
    layer, peer = layer.double().eval(), peer.double().eval()
    for parameter in peer.parameters():
        nn.init.normal_(parameter)
    for name, theirs in zip(("query", "key", "value", "output"), ("q", "k", "v", "o"), strict=True):
        getattr(layer, name).load_state_dict(getattr(peer, f"{theirs}_proj").state_dict())
    return layer, peer


def angles():
    """Cosines and sines of the peers' layout, halves, with base 10,000."""
    turns = torch.arange(LENGTH, dtype=torch.float64)[:, None] * 10000.0 ** (
        -torch.arange(0, 6, 2, dtype=torch.float64) / 6
    )
    turns = torch.cat((turns, turns), dim=-1)[None]
    return turns.cos(), turns.sin()


def test_norms_of_qwen3():
    peer = Qwen3Attention(Qwen3Config(**SIZES), layer_idx=0)
    norm = NormBeforeRotation(nn.RMSNorm(6, eps=1e-6), nn.RMSNorm(6, eps=1e-6))
    layer, peer = copied(MultiHeadAttention(WIDTH, 4, bias=False, head_norm=norm, **OURS), peer)
    norm.query.load_state_dict(peer.q_norm.state_dict())
    norm.key.load_state_dict(peer.k_norm.state_dict())
    x = words(2, LENGTH, WIDTH)
    theirs = peer(x, position_embeddings=angles(), attention_mask=HIDDEN)[0]
    # their norm computes in float32: two norms of 7 roundings of 2^-24, scores of size up to 10
    torch.testing.assert_close(
        layer(x), theirs, rtol=0.0, atol=40 * 7 * 2**-24 * float(theirs.detach().abs().max())
    )


def test_softcap_and_scale_of_gemma2():
    config = Gemma2Config(**SIZES, attn_logit_softcapping=1.5, query_pre_attn_scalar=9)
    peer = Gemma2Attention(config, layer_idx=0)
    layer = MultiHeadAttention(WIDTH, 4, bias=False, softcap=1.5, scale=9**-0.5, **OURS)
    layer, peer = copied(layer, peer)
    x = words(2, LENGTH, WIDTH)
    theirs = peer(x, position_embeddings=angles(), attention_mask=HIDDEN)[0]
    # they take the softmax in float32: its result is rounded to 2^-24 a few times
    torch.testing.assert_close(
        layer(x), theirs, rtol=0.0, atol=8 * 2**-24 * float(theirs.detach().abs().max())
    )


@pytest.mark.parametrize("padded", [False, True])
def test_sinks_of_gpt_oss(padded):
    peer = GptOssAttention(GptOssConfig(**SIZES, attention_bias=True), layer_idx=0)
    layer, peer = copied(MultiHeadAttention(WIDTH, 4, sinks=Sinks(4), **OURS), peer)
    layer.sinks.logits.data.copy_(peer.sinks)
    x, hidden, mask = words(2, LENGTH, WIDTH), HIDDEN.expand(2, -1, -1, -1), None
    if padded:
        keep = torch.ones(2, LENGTH, dtype=torch.bool)
        keep[1, 4:] = False
        mask, hidden = Padding(keep), hidden.masked_fill(~keep[:, None, None], -torch.inf)
    cosines, sines = (part[..., :3] for part in angles())  # one for each pair
    theirs = peer(x, position_embeddings=(cosines, sines), attention_mask=hidden)[0]
    torch.testing.assert_close(layer(x, mask=mask), theirs, **CLOSE)
    assert (layer(x) - MultiHeadAttention.forward(_without_sinks(layer), x)).abs().max() > 0.1


def _without_sinks(layer):
    layer.sinks = None
    return layer


def test_a_sink_of_zero_is_the_zero_key_of_torch():
    """``add_zero_attn`` appends a key and a value of zeros: a score of 0 and nothing to give."""
    peer = nn.MultiheadAttention(WIDTH, 4, batch_first=True, add_zero_attn=True).double()
    layer = MultiHeadAttention(WIDTH, 4, sinks=0.0).double()
    weights, biases = peer.in_proj_weight.chunk(3), peer.in_proj_bias.chunk(3)
    for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
        getattr(layer, name).load_state_dict({"weight": weight, "bias": bias})
    layer.output.load_state_dict(peer.out_proj.state_dict())
    x = words(2, LENGTH, WIDTH)
    torch.testing.assert_close(layer(x), peer(x, x, x)[0], rtol=0.0, atol=1e-12)
