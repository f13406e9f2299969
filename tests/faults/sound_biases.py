"""Biases and grids without a fault: every property that applies must hold."""

import torch
from torch.nn.functional import interpolate
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from headwise.check import axes, oracle
from headwise.core import attention
from headwise.layers import ALiBi
from tests.faults import biases
from tests.faults import formulas as right
from tests.faults.fault import Sound
from tests.faults.inputs import heads
from tests.faults.linear_biases import alibi as alibi_of_heads
from tests.faults.linear_biases import of_heads
from tests.faults.peers import x_transformers
from tests.faults.sound_layers import headwise_layer
from tests.faults.tables import wave


def with_bias(bias, formula=None, *, causal=False, **sizes):
    """A check that attention with a bias made in float32 is that with the same in float64."""
    return lambda dtype: [
        biases.in_attention(bias, formula or bias, causal=causal, **sizes)(dtype),
        biases.in_attention(bias, formula or bias, causal=causal, queries=1, **sizes)(dtype),
    ]


def headwise_alibi(dtype):
    def f(q, k, v):
        encoding = ALiBi(heads=q.shape[1])
        at, queries = torch.arange(k.shape[2]), q.shape[2]
        return attention(q, k, v, bias=encoding.bias(q, k, at[-queries:], at, None))

    def want(q, k, v):
        return right.attention(q, k, v, right.alibi(q.shape[1], q.shape[2], k.shape[2]))

    return [
        *(
            oracle(f, want, heads(dtype, count, queries=queries))
            for count in (1, 3, 6, 12)
            for queries in (None, 1)
        ),
        of_heads(lambda count: ALiBi(count).slopes(), right.alibi_slopes)(dtype),
        *headwise_layer(dtype, lambda: ALiBi(heads=3)),
    ]


def x_transformers_alibi(dtype):
    def slopes(count):
        return x_transformers.AlibiPositionalBias(count).slopes.flatten()

    def bias(queries, keys):
        return x_transformers.AlibiPositionalBias(biases.HEADS)(queries, keys)

    return [
        of_heads(slopes, right.alibi_slopes)(dtype),
        *with_bias(bias, alibi_of_heads)(dtype),
    ]


def bloom_alibi(dtype):
    """Counted from the key alone, which a softmax cannot tell from the distance under a causal mask."""

    def bias(queries, keys):
        return build_alibi_tensor(torch.ones(1, keys), biases.HEADS, torch.float32).expand(-1, queries, -1)

    return with_bias(bias, alibi_of_heads, causal=True)(dtype)


def t5_buckets(rule):
    return lambda dtype: [
        biases.buckets(lambda apart, causal=causal: rule(apart, causal), causal)(dtype)
        for causal in (True, False)
    ]


def t5_bias(queries, keys):
    return biases.TABLE[:, biases.bucket(biases.distance(queries, keys), causal=True)]


def transformer_xl(dtype):
    """The shift is right where it is used: at and below the diagonal."""

    def f(q, k, v):
        n = k.shape[2]
        past = torch.einsum("bhqd,kd->bhqk", q.float(), biases.rows_of_distance(8, 2 * n - 1)[:n])
        return biases.attend(q, k, v, biases.shifted(past) / 8**0.5, right.causal(n, n))

    def want(q, k, v):
        n = k.shape[2]
        r = torch.einsum("bhqd,kd->bhqk", q.double(), biases.rows_of_distance(8, 2 * n - 1).double())
        return right.attention(q, k, v, right.relative_scores(r, n, n) / 8**0.5, right.causal(n, n))

    return [oracle(f, want, heads(dtype, biases.HEADS))]


def shaw(dtype, reach=4):
    """A vector for each clipped distance, added to the keys inside the scale."""
    table = biases.rows_of_distance(8, 2 * reach + 1)

    def index(q, k):
        return biases.distance(q.shape[2], k.shape[2]).clamp(-reach, reach) + reach

    def f(q, k, v):
        relative = torch.einsum("bhqd,qkd->bhqk", q.float(), table[index(q, k)])
        return biases.attend(q, k, v, relative / 8**0.5)

    def want(q, k, v):
        keys = k.double()[:, :, None] + table.double()[index(q, k)]  # [batch heads query key head_dim]
        scores = (q.double()[:, :, :, None] * keys).sum(-1) / 8**0.5
        return scores.softmax(-1) @ v.double()

    return [oracle(f, want, heads(dtype, biases.HEADS))]


def fire(queries, keys):
    back = -biases.distance(queries, keys).clamp(max=0).float()
    query = torch.arange(keys - queries, keys)[:, None].float()
    return 8 * (0.1 * back + 1).log() / (0.1 * query.clamp(min=16.0) + 1).log()


def kerple(queries, keys):
    return -2.0 * (1 + 0.5 * biases.distance(queries, keys).abs().float()).log()


def kerple_formula(queries, keys):
    return -2.0 * (1 + 0.5 * biases.distance(queries, keys).abs().double()).log()


def cope(dtype):
    table = torch.randn(1, biases.HEADS, 1, 6, generator=torch.Generator().manual_seed(2))

    def f(q, k, v):
        scores, visible = (q @ k.mT).float() / 8**0.5, right.causal(q.shape[2], k.shape[2])
        gates = scores.masked_fill(~visible, -torch.inf).sigmoid()
        at = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=5)
        rows = table.expand(*scores.shape[:3], -1)
        low, high = (rows.gather(-1, whole.long()) for whole in (at.floor(), at.ceil()))
        return biases.attend(q, k, v, low + (high - low) * (at - at.floor()), visible)

    def want(q, k, v):
        scores, visible = q.double() @ k.double().mT / 8**0.5, right.causal(q.shape[2], k.shape[2])
        bias = right.cope(scores, table.expand(*scores.shape[:3], -1), visible)
        return right.attention(q, k, v, bias, visible)

    return [oracle(f, want, heads(dtype, biases.HEADS), depth=2)]


def grid(dtype):
    def encode(height, width):
        row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        return torch.cat((wave(row.flatten().float()), wave(column.flatten().float())), -1).to(dtype)

    def resized(height, width):
        ramps = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(9.0), indexing="ij"), -1)
        table = ramps[None].permute(0, 3, 1, 2)
        table = interpolate(table, size=(height, width), mode="bilinear", align_corners=False)
        return table[0].permute(1, 2, 0).to(dtype)

    return [axes(encode, first="rows"), axes(resized, first="rows", trained=(4, 9))]


SOUND = [
    Sound("headwise, ALiBi", headwise_alibi),
    Sound("x-transformers ALiBi", x_transformers_alibi),
    Sound("Bloom's ALiBi", bloom_alibi),
    Sound("T5 buckets by hand", t5_buckets(biases.bucket)),
    Sound(
        "T5 buckets of Hugging Face",
        t5_buckets(
            lambda apart, causal: T5Attention._relative_position_bucket(apart, bidirectional=not causal)
        ),
    ),
    Sound("T5 bias", with_bias(t5_bias, biases.t5, causal=True, sizes=(1, 5, 40))),
    Sound("Transformer-XL's shift", transformer_xl),
    Sound("Shaw", shaw),
    Sound("FIRE", with_bias(fire, biases.fire, causal=True, sizes=(2, 9, 40))),
    Sound("KERPLE", with_bias(kerple, kerple_formula)),
    Sound("CoPE", cope),
    Sound("waves on a grid, and a table resized", grid),
]
