"""Fused projections and shared heads of other models, read in their order and proved by equal outputs."""

import pytest
import torch
import transformers

from headwise.core import Causal, HeadwiseError
from headwise.layers import ALiBi, MultiHeadAttention, Rotary
from headwise.layers.conversion import (
    blocks_to_tiles,
    fuse_qkv,
    qkv_order,
    sharing,
    split_qkv,
    tiles_to_blocks,
)

CLOSE = {"atol": 1e-13, "rtol": 0}  # float64, one layer, numbers of size 1
IN_FLOAT32 = {
    "atol": 2e-6,
    "rtol": 0,
}  # their angles, or their softmax, in float32: 2^-24 of numbers of size 4
HIDDEN = torch.full((7, 7), -1e30, dtype=torch.float64).triu(1)[None, None]


def randomised(module):
    torch.manual_seed(0)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter))
    return module


def embedded():
    return torch.randn(2, 7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def filled(ours, fused, output, heads, kv_heads, order):
    """Our layer with the weights of a fused projection."""
    for kind in ("weight", "bias"):
        if getattr(fused, kind) is None:
            continue
        parts = split_qkv(getattr(fused, kind), heads, kv_heads, order=order)
        for projection, part in zip((ours.query, ours.key, ours.value), parts, strict=True):
            getattr(projection, kind).copy_(part)
        getattr(ours.output, kind).copy_(getattr(output, kind))
    return ours


@torch.no_grad()
def test_gpt_neox_with_groups_and_a_quarter_that_turns():
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    config = transformers.GPTNeoXConfig(**sizes, vocab_size=9, rotary_pct=0.25, attn_implementation="eager")
    network = randomised(transformers.GPTNeoXModel(config))
    part, x = network.layers[0].attention, embedded()
    ours = MultiHeadAttention(16, 2, position=Rotary.from_config(config)).double()
    filled(ours, part.query_key_value, part.dense, 2, 2, "groups")
    waves = network.rotary_emb(x, torch.arange(7)[None])
    out = part(x, attention_mask=HIDDEN, position_embeddings=waves)[0]
    torch.testing.assert_close(ours(x, mask=Causal()), out, **IN_FLOAT32)


@torch.no_grad()
def test_bloom_with_groups_and_a_bias_by_distance():
    config = transformers.BloomConfig(hidden_size=16, n_head=4, n_layer=1, vocab_size=9)
    network = randomised(transformers.BloomModel(config))
    part, x = network.h[0].self_attention, embedded()
    ours = MultiHeadAttention(16, 4, position=ALiBi(4)).double()
    filled(ours, part.query_key_value, part.dense, 4, 4, "groups")
    alibi = network.build_alibi_tensor(torch.ones(2, 7), 4, torch.float64)
    out = part(x, torch.zeros_like(x), alibi=alibi, attention_mask=HIDDEN)[0]
    torch.testing.assert_close(ours(x, mask=Causal()), out, **IN_FLOAT32)


@pytest.mark.parametrize(
    ("options", "kv_heads", "order"),
    [
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2, "groups"),
        ({"new_decoder_architecture": False, "multi_query": True}, 1, "parts"),
        ({"new_decoder_architecture": False, "multi_query": False}, 4, "groups"),
    ],
)
@torch.no_grad()
def test_falcon_in_its_three_orders(options, kv_heads, order):
    config = transformers.FalconConfig(
        hidden_size=16, num_attention_heads=4, num_hidden_layers=1, vocab_size=9, bias=True, **options
    )
    network = randomised(transformers.FalconModel(config))
    part, x = network.h[0].self_attention, embedded()
    ours = MultiHeadAttention(16, 4, kv_heads=kv_heads, position=Rotary.from_config(config)).double()
    filled(ours, part.query_key_value, part.dense, 4, kv_heads, order)
    waves = network.rotary_emb(x, torch.arange(7)[None])
    out = part(x, alibi=None, attention_mask=HIDDEN, position_embeddings=waves)[0]
    torch.testing.assert_close(ours(x, mask=Causal()), out, **IN_FLOAT32)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1), (6, 3)])
@pytest.mark.parametrize("order", ["parts", "groups"])
def test_fused_again_it_is_what_it_was(heads, kv_heads, order):
    for shape in ((), (5,)):
        rows = torch.randn((heads + 2 * kv_heads) * 3, *shape)
        parts = split_qkv(rows, heads, kv_heads, order=order)
        assert [len(part) for part in parts] == [heads * 3, kv_heads * 3, kv_heads * 3]
        assert torch.equal(fuse_qkv(*parts, heads, kv_heads, order=order), rows)


def test_the_order_of_code_is_found():
    grouped = lambda x: (lambda g: (g[..., :-2, :], g[..., -2:-1, :], g[..., -1:, :]))(x.view(1, 1, 2, 4, 3))  # noqa: E731
    assert qkv_order(grouped, heads=4, kv_heads=2, head_dim=3) == "groups"
    assert qkv_order(lambda x: x.split([12, 6, 6], dim=-1), heads=4, kv_heads=2, head_dim=3) == "parts"
    with pytest.raises(HeadwiseError, match="order 'parts' or 'groups', got other rows"):
        qkv_order(lambda x: x.flip(-1).split([12, 6, 6], dim=-1), heads=4, kv_heads=2, head_dim=3)


def test_the_order_of_gpt_neox_is_found_in_its_own_code():
    """Its own split, asked with its own module: the projection gives row numbers, whatever comes in."""
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 1}
    part = transformers.GPTNeoXModel(transformers.GPTNeoXConfig(**sizes, vocab_size=9)).layers[0].attention

    def split(numbered):
        return numbered.view(1, 1, -1, 3 * part.head_size).transpose(1, 2).chunk(3, dim=-1)

    assert qkv_order(split, heads=2, kv_heads=2, head_dim=8) == "groups"


def tiled_attention(q, k, v):
    """Query head h reads key/value head h modulo their number."""
    repeats = q.shape[1] // k.shape[1]
    weights = (q @ k.repeat(1, repeats, 1, 1).mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v.repeat(1, repeats, 1, 1)


@torch.no_grad()
def test_tiled_heads_in_blocks_give_the_same():
    torch.manual_seed(0)
    theirs = MultiHeadAttention(12, 6, kv_heads=2).double()
    for bias in (theirs.query.bias, theirs.key.bias, theirs.value.bias):
        bias.normal_()
    x = torch.randn(2, 5, 12).double()
    q = theirs.query(x).unflatten(-1, (6, 2)).transpose(1, 2)
    k = theirs.key(x).unflatten(-1, (2, 2)).transpose(1, 2)
    v = theirs.value(x).unflatten(-1, (2, 2)).transpose(1, 2)
    out = theirs.output(tiled_attention(q, k, v).transpose(1, 2).flatten(-2))
    assert not torch.allclose(theirs(x), out, atol=1e-3)
    ours = MultiHeadAttention(12, 6, kv_heads=2).double()
    ours.load_state_dict(theirs.state_dict())
    ours.query.weight.copy_(tiles_to_blocks(theirs.query.weight, 6, 2))
    ours.query.bias.copy_(tiles_to_blocks(theirs.query.bias, 6, 2))
    ours.output.weight.copy_(tiles_to_blocks(theirs.output.weight, 6, 2, dim=1))
    torch.testing.assert_close(ours(x), out, **CLOSE)
    assert torch.equal(blocks_to_tiles(ours.output.weight, 6, 2, dim=1), theirs.output.weight)
    assert torch.equal(blocks_to_tiles(ours.query.weight, 6, 2, dim=-2), theirs.query.weight)


def test_how_a_function_shares_is_found():
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.models.llama.modeling_llama import repeat_kv

    grouped = lambda q, k, v: scaled_dot_product_attention(q, k, v, enable_gqa=True)  # noqa: E731
    assert sharing(grouped, heads=6, kv_heads=2) == "blocks"
    assert sharing(lambda q, k, v: repeat_kv(v, 3), heads=6, kv_heads=2) == "blocks"
    assert sharing(tiled_attention, heads=6, kv_heads=2) == "tiles"
    assert sharing(tiled_attention, heads=6, kv_heads=6) == "blocks"
    with pytest.raises(HeadwiseError, match="got heads that read"):
        sharing(lambda q, k, v: tiled_attention(q, k, v).flip(1), heads=6, kv_heads=2)
