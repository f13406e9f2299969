"""Multi-head latent attention against plain loops and DeepSeek's code, in each of its two ways."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from transformers import DeepseekV2Config, DeepseekV3Config
from transformers.models.deepseek_v2.modeling_deepseek_v2 import (
    DeepseekV2Attention,
    DeepseekV2RotaryEmbedding,
)
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3RotaryEmbedding,
)

from headwise import check
from headwise.core import Causal, Padding
from headwise.layers import Latents, MultiHeadLatentAttention, NoPosition, Rotary
from tests import oracle
from tests.layers.encodings import words

# Float64 on both sides, sums of at most 24 terms of size about 1 to 10, five products deep.
EXACT = {"rtol": 0.0, "atol": 1e-11}
LENGTH, WIDTH, HEADS = 6, 12, 3
SIZES = {"kv_rank": 5, "head_dim": 4, "rotary_dim": 2, "value_dim": 3}
query_ranks = pytest.mark.parametrize("query_rank", [None, 4])
KEEP = torch.tensor([[False, False, True, True, True, True], [True] * LENGTH])


def latent_layer(query_rank=None, **kwargs):
    """A float64 layer whose every parameter is drawn, norms and biases too."""
    layer = MultiHeadLatentAttention(WIDTH, HEADS, query_rank=query_rank, **{**SIZES, **kwargs})
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer.double().eval()


def by_hand(layer, x, positions, visible):
    """Section 2.1 of the paper, equations 9 to 19, one token and one head at a time."""
    weight = {name: p.tolist() for name, p in layer.named_parameters()}
    asked = x
    if layer.query_rank is not None:
        asked = oracle.projected(asked, weight["query.0.weight"], weight.get("query.0.bias"))
        asked = [oracle.rms_norm(row, weight["query.1.weight"]) for row in asked]
    queries = oracle.projected(asked, weight["query.2.weight" if layer.query_rank else "query.weight"])
    compressed = oracle.projected(x, weight["compression.weight"], weight.get("compression.bias"))
    rank, plain, turning = layer.kv_rank, layer.head_dim, layer.rotary_dim
    latents = [oracle.rms_norm(row[:rank], weight["norm.weight"]) for row in compressed]
    shared = [oracle.rotary(row[rank:], p) for row, p in zip(compressed, positions, strict=True)]
    opened = oracle.projected(latents, weight["opening.weight"])
    heads = []
    for head in range(layer.heads):
        q = oracle.columns(queries, head * (plain + turning), (head + 1) * (plain + turning))
        q = [row[:plain] + oracle.rotary(row[plain:], p) for row, p in zip(q, positions, strict=True)]
        kv = oracle.columns(opened, head * (plain + layer.value_dim), (head + 1) * (plain + layer.value_dim))
        k = [row[:plain] + turned for row, turned in zip(kv, shared, strict=True)]
        v = [row[plain:] for row in kv]
        heads.append(oracle.attention(q, k, v, visible=visible, scale=layer.scale))
    mixed = oracle.side_by_side(heads)
    output = oracle.projected(mixed, weight["output.weight"], weight.get("output.bias"))
    return torch.tensor(output, dtype=torch.float64)


def force(monkeypatch, way):
    """Whichever is cheaper, or always one of the two."""
    if way != "cheaper":
        monkeypatch.setattr(
            MultiHeadLatentAttention, "_closed_is_cheaper", lambda *_: way == "closed", raising=True
        )


@query_ranks
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("way", ["cheaper", "opened", "closed"])
def test_against_plain_loops(monkeypatch, query_rank, bias, way):
    force(monkeypatch, way)
    layer, x = latent_layer(query_rank, bias=bias, mask=Causal()), words(2, LENGTH, WIDTH)
    positions = torch.tensor([0, 1, 2, 5, 90, 91])
    output = layer(x, mask=Padding(KEEP), positions=positions)
    for row in range(2):
        sees = oracle.sees_both(oracle.sees_causal, oracle.sees_padding(KEEP[row].tolist()))
        visible = oracle.visible(LENGTH, LENGTH, sees)
        wanted = by_hand(layer, x[row].tolist(), positions.tolist(), visible)
        torch.testing.assert_close(output[row], wanted, **EXACT)


def test_the_cheaper_way_is_closed_for_one_query_and_opened_for_many():
    """The sizes of DeepSeek-V3: a token after 4,096, and a whole prompt."""
    layer = MultiHeadLatentAttention(64, 2, kv_rank=512, head_dim=128, rotary_dim=64)
    assert layer._closed_is_cheaper(1, 4096)
    assert not layer._closed_is_cheaper(4096, 4096)


@pytest.mark.parametrize("way", ["cheaper", "opened", "closed"])
@pytest.mark.parametrize("chunks", [[6], [1] * 6, [3, 1, 2]])
def test_the_latents_of_what_came_before_are_enough(monkeypatch, way, chunks):
    layer, x = latent_layer(4, mask=Causal()), words(2, LENGTH, WIDTH)
    whole = layer(x)
    force(monkeypatch, way)
    held, done = Latents(words(2, 0, 5), words(2, 0, 2)), 0
    for length in chunks:
        chunk, positions = x[:, done : done + length], torch.arange(done, done + length)
        new = layer.compress(chunk, positions)
        held = Latents(*(torch.cat(pair, dim=1) for pair in zip(held, new, strict=True)))
        output = layer(chunk, latents=held, positions=positions)
        torch.testing.assert_close(output, whole[:, done : done + length], **EXACT)
        done += length
    assert sum(part.shape[-1] for part in held) == 5 + 2, "a token leaves so many numbers, whatever the heads"


@query_ranks
@pytest.mark.parametrize("way", ["opened", "closed"])
def test_gradients_against_finite_differences(monkeypatch, query_rank, way):
    force(monkeypatch, way)
    layer = latent_layer(query_rank, mask=Causal() & Padding(KEEP))
    x = words(2, LENGTH, WIDTH).requires_grad_()
    assert gradcheck(lambda x, *_: layer(x), [x, *layer.parameters()], atol=1e-5, fast_mode=True)


@pytest.mark.parametrize("way", ["opened", "closed"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_row_that_sees_nothing_gives_the_bias(monkeypatch, way, dtype):
    force(monkeypatch, way)
    layer = latent_layer(4, bias=True).to(dtype)
    keep = torch.tensor([[False] * LENGTH, [True] * LENGTH])
    x = words(2, LENGTH, WIDTH).to(dtype).requires_grad_()
    for mask in (Padding(keep), Padding(keep) & Causal()):
        output = layer(x, mask=mask)
        assert torch.equal(output[0], layer.output.bias.expand_as(output[0]))
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        assert not gradient[0].any()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("way", ["opened", "closed"])
def test_positions_shift_together_without_effect(monkeypatch, way):
    force(monkeypatch, way)
    layer, x = latent_layer(4, mask=Causal()), words(2, LENGTH, WIDTH)
    at = torch.arange(LENGTH)
    torch.testing.assert_close(layer(x, positions=at + 4099), layer(x), **EXACT)
    assert (layer(x, positions=2 * at) - layer(x)).abs().max() > 1e-3


def test_dropout_acts_in_training_alone():
    layer, x = latent_layer(dropout=0.5), words(2, LENGTH, WIDTH)
    without = latent_layer()
    without.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x), without(x), **EXACT)
    assert not torch.equal(layer.train()(x), layer(x))


@pytest.mark.parametrize("way", ["opened", "closed"])
def test_bfloat16_keeps_to_its_roundings(monkeypatch, way):
    """At most fourteen roundings of 2^-8 lie on a path from the input to the output.

    Those of queries and keys (two products and a norm each, the moved or opened product, the turn) reach the
    output through scores below 1 in size, so they count no more there; then weights, values, output.
    """
    force(monkeypatch, way)
    torch.manual_seed(1)
    layer = MultiHeadLatentAttention(32, 4, kv_rank=16, query_rank=16, head_dim=8, rotary_dim=4).bfloat16()
    x = words(1, 50, 32).bfloat16()
    exact = copy.deepcopy(layer).double()(x.double())
    assert (layer(x).double() - exact).abs().max() <= 14 * 2.0**-8 * exact.abs().max()


@pytest.mark.parametrize("query_rank", [None, 4])
def test_check_finds_nothing(query_rank):
    layer = MultiHeadLatentAttention(16, 2, kv_rank=8, head_dim=6, rotary_dim=4, query_rank=query_rank)
    layer.mask = Causal()
    checked = check.layer(layer, expect="causal relative")
    assert [outcome.name for outcome in checked.failures] == []


def test_without_a_turn_order_does_not_show():
    layer, x = latent_layer(position=NoPosition()), words(1, LENGTH, WIDTH)
    torch.testing.assert_close(layer(x.flip(1)), layer(x).flip(1), **EXACT)


def copied(layer, peer):
    """Our layer with the weights of one of DeepSeek's."""
    for parameter in peer.parameters():
        nn.init.normal_(parameter, std=0.5)
    layer, peer = layer.double().eval(), peer.double().eval()
    names = {
        "compression": "kv_a_proj_with_mqa",
        "norm": "kv_a_layernorm",
        "opening": "kv_b_proj",
        "output": "o_proj",
    }
    names |= (
        {"query": "q_proj"}
        if peer.q_lora_rank is None
        else {"query.0": "q_a_proj", "query.1": "q_a_layernorm", "query.2": "q_b_proj"}
    )
    for ours, theirs in names.items():
        layer.get_submodule(ours).load_state_dict(peer.get_submodule(theirs).state_dict())
    return layer, peer


@query_ranks
@pytest.mark.parametrize("peer", ["v2", "v3", "v3, halves"])
@pytest.mark.parametrize("way", ["opened", "closed"])
def test_against_deepseek(monkeypatch, query_rank, peer, way):
    """Their norms and angles are float32: some roundings of 2^-24 on each path, fourteen at most."""
    force(monkeypatch, way)
    kind, turns, config = {
        "v2": (DeepseekV2Attention, DeepseekV2RotaryEmbedding, DeepseekV2Config),
        "v3": (DeepseekV3Attention, DeepseekV3RotaryEmbedding, DeepseekV3Config),
    }[peer[:2]]
    extra = {"rope_interleave": peer == "v3"} if peer[:2] == "v3" else {}
    config = config(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        q_lora_rank=query_rank,
        kv_lora_rank=6,
        qk_nope_head_dim=4,
        qk_rope_head_dim=4,
        v_head_dim=5,
        head_dim=4,
        attention_bias=True,
        attn_implementation="eager",
        **extra,
    )
    ours = MultiHeadLatentAttention(
        WIDTH,
        HEADS,
        query_rank=query_rank,
        kv_rank=6,
        head_dim=4,
        rotary_dim=4,
        value_dim=5,
        bias=True,
        position=Rotary(pairs="halves" if peer == "v3, halves" else "neighbours"),
        mask=Causal(),
    )
    layer, attention = copied(ours, kind(config, layer_idx=0))
    x, positions = words(2, LENGTH, WIDTH), torch.arange(LENGTH)[None] + 3
    hidden = torch.full((LENGTH, LENGTH), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    with torch.no_grad():
        embedded = turns(config)(x, positions)
        theirs = attention(x, position_embeddings=embedded, attention_mask=hidden)[0]
        output = layer(x, positions=positions[0])
    torch.testing.assert_close(output, theirs, rtol=0.0, atol=14 * 2**-24 * 10 * float(theirs.abs().max()))
    assert (layer(x, positions=0 * positions[0]) - output).abs().max() > 1e-2, "the turn matters here"
