"""Encodings by distance against other libraries' code, with their weights."""

import warnings

import pytest
import torch

from headwise.core import Causal, Padding, attention_weights
from headwise.layers import ALiBi, BEiTTable, LogCPB, MultiHeadAttention, SwinTable, T5Bias

with warnings.catch_warnings():  # it still uses torch.jit
    warnings.simplefilter("ignore")
    from x_transformers.x_transformers import AlibiPositionalBias, RelativePositionBias

HEADS, LENGTH = 6, 150


def bias(encoding, queries, keys):
    q = torch.zeros(1, encoding.heads, len(queries), 2)
    k = torch.zeros(1, encoding.heads, len(keys), 2)
    return encoding.bias(q, k, queries, keys, None).detach()[0]


def t5_of(table, **how):
    encoding = T5Bias(table.shape[1], **how)
    encoding.table.data = table.detach().clone()
    return encoding


def t5_attention(decoder):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=12, d_kv=4, num_heads=3, is_decoder=decoder)
    return T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()


@pytest.mark.parametrize("decoder", [False, True])
def test_t5_bias_of_transformers(decoder):
    theirs = t5_attention(decoder)
    torch.nn.init.normal_(theirs.relative_attention_bias.weight)
    ours = t5_of(theirs.relative_attention_bias.weight, bidirectional=not decoder)
    at = torch.arange(LENGTH)
    assert torch.equal(bias(ours, at, at), theirs.compute_bias(LENGTH, LENGTH)[0])
    assert torch.equal(
        bias(ours, at[-3:], at), theirs.compute_bias(3, LENGTH, past_seen_tokens=LENGTH - 3)[0]
    )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (32, 256), (16, 64), (64, 512), (8, 20), (12, 100)])
def test_t5_buckets_of_transformers(buckets, most, bidirectional):
    """Also where a range begins at a whole power, which float32 logarithms may miss by one."""
    from transformers.models.t5.modeling_t5 import T5Attention

    apart = torch.arange(-2 * most, 2 * most + 1)
    theirs = T5Attention._relative_position_bucket(apart, bidirectional, buckets, most)
    ours = T5Bias(1, buckets=buckets, max_distance=most, bidirectional=bidirectional).bucket(-apart)
    different = apart[theirs != ours].tolist()
    edges = T5Bias(1, buckets=buckets, max_distance=most, bidirectional=bidirectional).starts
    assert {abs(d) for d in different} <= set(edges)
    assert len(different) <= 2


def test_t5_attention_of_transformers():
    """A layer with T5's weights needs scale=1: here its scores are not divided by sqrt(head_dim)."""
    theirs = t5_attention(decoder=False)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(2, 9, 12)
    expected = theirs(x)[0]
    ours = MultiHeadAttention(12, 3, position=t5_of(theirs.relative_attention_bias.weight), bias=False)
    for name, weight in (("query", theirs.q), ("key", theirs.k), ("value", theirs.v), ("output", theirs.o)):
        getattr(ours, name).weight.data = weight.weight.data.clone()
    ours.query.weight.data *= 2.0  # sqrt(4), which the layer divides by
    torch.testing.assert_close(ours(x), expected, rtol=0.0, atol=2e-6)


def test_mpnet_bias_of_transformers():
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    apart = torch.arange(-300, 301)
    assert torch.equal(T5Bias(1).bucket(-apart), MPNetEncoder.relative_position_bucket(apart))


@pytest.mark.parametrize("causal", [True, False])
def test_t5_bias_of_x_transformers(causal):
    """It multiplies by sqrt(head_dim) to undo a division that the sum gets later; here by 1."""
    theirs = RelativePositionBias(scale=1.0, causal=causal, heads=HEADS)
    ours = t5_of(theirs.relative_attention_bias.weight, bidirectional=not causal)
    at = torch.arange(LENGTH)
    assert torch.equal(bias(ours, at, at), theirs(LENGTH, LENGTH).detach())
    assert torch.equal(bias(ours, at[-5:], at), theirs(5, LENGTH).detach())


@pytest.mark.parametrize("heads", range(1, 41))
def test_alibi_of_x_transformers(heads):
    """Their slopes are float32, once rounded: two roundings of 2^-24."""
    at = torch.arange(20)
    torch.testing.assert_close(
        bias(ALiBi(heads), at[-7:], at), AlibiPositionalBias(heads)(7, 20), rtol=2**-22, atol=0.0
    )


@pytest.mark.parametrize("heads", [3, 8, 12])
def test_alibi_of_bloom(heads):
    """Bloom adds slope times the key's place: the same weights, as a number for the whole row cancels."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    keep = torch.tensor([[False, False, *[True] * 9], [True] * 11])
    theirs = build_alibi_tensor(keep.long(), heads, torch.float32).reshape(2, heads, 1, 11)
    q, k = torch.randn(2, heads, 11, 4), torch.randn(2, heads, 11, 4)
    mask, at, encoding = Causal() & Padding(keep), Padding(keep).positions(), ALiBi(heads)

    def ours(q, k, rows, columns, visible):
        return encoding.bias(q, k, at[..., rows], at[..., columns], visible)

    torch.testing.assert_close(
        attention_weights(q, k, mask=mask, bias=ours),
        attention_weights(q, k, mask=mask, bias=theirs.expand(-1, -1, 11, -1)),
        rtol=0.0,
        atol=2e-6,
    )


def test_swin_bias_of_transformers():
    """Theirs takes square windows through its config; the class itself takes any."""
    from transformers.models.swin.modeling_swin import SwinRelativePositionBias

    theirs = SwinRelativePositionBias(HEADS, (3, 5))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    ours = SwinTable(HEADS, (3, 5))
    ours.table.data = theirs.relative_position_bias_table.data
    at = torch.cartesian_prod(torch.arange(3), torch.arange(5))
    assert torch.equal(bias(ours, at, at), theirs().detach()[0])


def test_beit_bias_of_transformers():
    from transformers import BeitConfig
    from transformers.models.beit.modeling_beit import BeitRelativePositionBias

    theirs = BeitRelativePositionBias(BeitConfig(image_size=(6, 10), patch_size=2, num_attention_heads=HEADS))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    ours = BEiTTable(HEADS, (3, 5))
    ours.table.data = theirs.relative_position_bias_table.data
    at = torch.cat((torch.tensor([[-1, -1]]), torch.cartesian_prod(torch.arange(3), torch.arange(5))))
    index = theirs.generate_relative_position_index((3, 5))
    expected = theirs.relative_position_bias_table[index.flatten()].reshape(16, 16, HEADS).permute(2, 0, 1)
    assert torch.equal(bias(ours, at, at), expected.detach())


@pytest.mark.parametrize("trained", [(0, 0), (8, 12)])
def test_log_cpb_of_swin_v2(trained):
    """Their module has the table of coordinates and the network; their forward is 16 sigmoid of it."""
    from transformers import Swinv2Config
    from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

    theirs = Swinv2SelfAttention(Swinv2Config(), HEADS * 4, HEADS, (3, 5), trained)
    ours = LogCPB(HEADS, trained if trained[0] else (3, 5))
    network = theirs.continuous_position_bias_mlp
    for mine, its in ((ours.hidden.weight, network[0].weight), (ours.hidden.bias, network[0].bias)):
        mine.data = its.data
    ours.out.weight.data = network[2].weight.data
    table = 16 * network(theirs.relative_coords_table).reshape(-1, HEADS).sigmoid()
    expected = table[theirs.relative_position_index.flatten()].reshape(15, 15, HEADS).permute(2, 0, 1)
    at = torch.cartesian_prod(torch.arange(3), torch.arange(5))
    torch.testing.assert_close(bias(ours, at, at), expected.detach(), rtol=0.0, atol=2e-6)
