"""Encodings that read content against other people's code, weights moved over, in float64."""

import warnings

import pytest
import torch
from torch import nn
from transformers import DebertaConfig, DebertaV2Config, Wav2Vec2BertConfig, XLNetConfig
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention as FirstDeBERTa
from transformers.models.deberta.modeling_deberta import build_relative_position
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention as SecondDeBERTa
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention
from transformers.models.xlnet.modeling_xlnet import XLNetModel

from headwise.core import Causal
from headwise.layers import CoPE, DeBERTa, ForgetGate, MultiHeadAttention, Shaw, TransformerXL
from tests.layers.encodings import words

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses parts of torch that are on their way out
    from x_transformers import x_transformers

MODEL_DIM, HEADS, HEAD_DIM, LENGTH = 12, 3, 4, 9
# float64 on both sides, sums of 12 terms; what a peer makes in float32 is given its own tolerance below
EXACT = {"rtol": 0.0, "atol": 1e-12}


def randomised(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def copied(to, weight, bias=None):
    """The weight of a linear layer, and its bias or none at all."""
    with torch.no_grad():
        to.weight.copy_(weight)
        to.bias.copy_(torch.zeros_like(to.bias) if bias is None else bias)


def concatenated_heads(layer, *args, **kwargs):
    """The layer's output before heads are mixed."""
    copied(layer.output, torch.eye(MODEL_DIM))
    return layer(*args, **kwargs)


def test_shaw_keys_against_wav2vec2_bert():
    config = Wav2Vec2BertConfig(
        hidden_size=MODEL_DIM,
        num_attention_heads=HEADS,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=4,
        right_max_position_embeddings=2,
        attn_implementation="eager",
    )
    theirs = randomised(Wav2Vec2BertSelfAttention(config))
    shaw = Shaw(HEAD_DIM, 4, max_ahead=2, values=False).double()
    ours = MultiHeadAttention(MODEL_DIM, HEADS, position=shaw).double()
    for to, source in zip(
        (ours.query, ours.key, ours.value, ours.output),
        (theirs.linear_q, theirs.linear_k, theirs.linear_v, theirs.linear_out),
        strict=True,
    ):
        copied(to, source.weight, source.bias)
    with torch.no_grad():
        shaw.key_table.copy_(theirs.distance_embedding.weight)
    x = words(2, LENGTH, MODEL_DIM)
    torch.testing.assert_close(ours(x), theirs(x)[0], **EXACT)


@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("limit", [None, 3])
def test_transformer_xl_against_xlnet(limit, past):
    """In both directions, with memories before the queries, and with clipped distances."""
    config = XLNetConfig(
        d_model=MODEL_DIM, n_head=HEADS, n_layer=1, d_inner=8, vocab_size=5, clamp_len=limit or -1
    )
    model = randomised(XLNetModel(config))
    theirs = model.layer[0].rel_attn
    position = TransformerXL(MODEL_DIM, HEADS, max_distance=limit).double()
    ours = MultiHeadAttention(MODEL_DIM, HEADS, position=position).double()
    with torch.no_grad():
        for to, source in ((ours.query, theirs.q), (ours.key, theirs.k), (ours.value, theirs.v)):
            copied(to, source.flatten(1).T)
        position.project.weight.copy_(theirs.r.flatten(1).T)
        position.content_vector.copy_(theirs.r_w_bias)
        position.position_vector.copy_(theirs.r_r_bias)
    memory = words(1, past + LENGTH, MODEL_DIM)
    x = memory[:, past:]
    r = model.relative_positional_encoding(LENGTH, past + LENGTH, bsz=1).double()
    q, k, v, by_distance = (
        torch.einsum("ibh,hnd->ibnd", source.transpose(0, 1) if source is not r else r, weight)
        for source, weight in ((x, theirs.q), (memory, theirs.k), (memory, theirs.v), (r, theirs.r))
    )
    their_heads = theirs.rel_attn_core(q, k, v, by_distance).transpose(0, 1).flatten(-2)
    at = torch.arange(past + LENGTH)
    our_heads = concatenated_heads(ours, x, memory, positions=at[past:], memory_positions=at)
    # their sinusoids are float32: an angle up to 14 is off by 2^-21, and twelve products of size 1 are added
    torch.testing.assert_close(our_heads, their_heads, rtol=0.0, atol=12 * 8 * 2**-21)
    far_off = concatenated_heads(ours, x, memory, positions=at[past:] + 1, memory_positions=at)
    assert (far_off - their_heads).abs().max() > 1e-2


def everything_seen():
    return torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool)


def test_deberta_against_the_first_version():
    config = DebertaConfig(
        hidden_size=MODEL_DIM,
        num_attention_heads=HEADS,
        relative_attention=True,
        max_relative_positions=4,
        pos_att_type=["c2p", "p2c"],
    )
    theirs, table = randomised(FirstDeBERTa(config)), words(8, MODEL_DIM)
    position = DeBERTa(MODEL_DIM, HEADS, max_distance=4).double()
    ours = MultiHeadAttention(MODEL_DIM, HEADS, position=position).double()
    q, k, v = theirs.in_proj.weight.view(HEADS, 3, HEAD_DIM, MODEL_DIM).unbind(1)  # fused head by head
    copied(ours.query, q.flatten(0, 1), theirs.q_bias)
    copied(ours.key, k.flatten(0, 1))
    copied(ours.value, v.flatten(0, 1), theirs.v_bias)
    copied(position.key, theirs.pos_proj.weight)
    copied(position.query, theirs.pos_q_proj.weight, theirs.pos_q_proj.bias)
    position.table.data.copy_(table)
    x = words(2, LENGTH, MODEL_DIM)
    relative = build_relative_position(x, x)
    wanted = theirs(x, everything_seen(), relative_pos=relative, rel_embeddings=table)[0]
    # their scale is a float32 square root
    torch.testing.assert_close(concatenated_heads(ours, x), wanted, rtol=0.0, atol=1e-6)
    position.third_row = "printed"
    assert (concatenated_heads(ours, x) - wanted).abs().max() > 1e-2


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("buckets", [-1, 6])
def test_deberta_against_the_second_version(buckets, shared):
    config = DebertaV2Config(
        hidden_size=MODEL_DIM,
        num_attention_heads=HEADS,
        relative_attention=True,
        max_relative_positions=8,
        position_buckets=buckets,
        pos_att_type=["c2p", "p2c"],
        share_att_key=shared,
    )
    theirs = randomised(SecondDeBERTa(config))
    position = DeBERTa(MODEL_DIM, HEADS, max_distance=8, buckets=None if buckets < 0 else buckets).double()
    ours = MultiHeadAttention(MODEL_DIM, HEADS, position=position).double()
    for to, source in zip(
        (ours.query, ours.key, ours.value),
        (theirs.query_proj, theirs.key_proj, theirs.value_proj),
        strict=True,
    ):
        copied(to, source.weight, source.bias)
    if shared:
        position.query, position.key = ours.query, ours.key
    else:
        copied(position.key, theirs.pos_key_proj.weight, theirs.pos_key_proj.bias)
        copied(position.query, theirs.pos_query_proj.weight, theirs.pos_query_proj.bias)
    position.table = nn.Parameter(words(2 * position.span, MODEL_DIM))
    x = words(2, LENGTH, MODEL_DIM)
    wanted = theirs(x, everything_seen(), rel_embeddings=position.table)[0]
    # their scale is a float32 square root
    torch.testing.assert_close(concatenated_heads(ours, x), wanted, rtol=0.0, atol=1e-6)


def test_deberta_buckets_as_published():
    """256 buckets up to 512, at every distance that matters and beyond: the same row of the table."""
    distance = torch.arange(-1500, 1501)
    ours = DeBERTa(8, 2, max_distance=512, buckets=256).bucket(distance)
    theirs = make_log_bucket_position(distance, 256, 512).long()
    assert torch.equal(ours.clamp(-256, 255), theirs.clamp(-256, 255))


def bias_in_causal(encoding, q, k, **more):
    at = torch.arange(LENGTH)
    visible = Causal().visible(at, at)[None, None]
    return encoding.bias(q, k, at, at, visible, **more)[..., visible[0, 0]]


def test_cope_against_x_transformers():
    theirs = randomised(x_transformers.CoPE(HEAD_DIM, HEADS, max_pos=4))
    ours = CoPE(HEAD_DIM, max_position=4).double()
    ours.table.data.copy_(theirs.pos_emb)
    q, k = words(2, HEADS, LENGTH, HEAD_DIM), words(2, HEADS, LENGTH, HEAD_DIM)
    future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / HEAD_DIM**0.5).masked_fill(future, -torch.inf)
    wanted = theirs(q, scores)[..., ~future]
    torch.testing.assert_close(bias_in_causal(ours, q, k), wanted, **EXACT)


def test_forget_gates_against_x_transformers():
    theirs = randomised(x_transformers.DataDependentAlibi(MODEL_DIM, HEADS))
    ours = ForgetGate(MODEL_DIM, HEADS).double()
    copied(ours.gate, theirs.to_forget_gates[0].weight, theirs.to_forget_gates[0].bias)
    x, q = words(2, LENGTH, MODEL_DIM), words(2, HEADS, LENGTH, HEAD_DIM)
    wanted = theirs(x)[..., torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()]
    torch.testing.assert_close(bias_in_causal(ours, q, q, features=ours.features(x)), wanted, **EXACT)
