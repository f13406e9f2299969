"""Attention code without a fault, of as many kinds: every property that applies must hold."""

import math
import warnings
from functools import partial

import torch
from torch import nn
from torch.nn.functional import interpolate, multi_head_attention_forward, scaled_dot_product_attention
from transformers import LlamaConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_turn
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import (
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    eager_attention_forward,
)
from transformers.models.t5.modeling_t5 import T5Attention

from headwise.check import (
    Vectors,
    angles,
    axes,
    effect,
    empty_rows,
    evaluation,
    kv_order,
    length,
    lifecycle,
    oracle,
    paths,
    polarity,
    rotation,
    scale,
)
from headwise.core import Causal, Explicit, attention
from headwise.layers import ALiBi, Learned, MultiHeadAttention, NoPosition, Rotary, Sinusoidal
from tests.faults import biases
from tests.faults import formulas as right
from tests.faults.fault import Sound
from tests.faults.inputs import heads, turned
from tests.faults.rotation import speeds, turn, turn_neighbours, wave

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it still scripts a function
    import x_transformers.x_transformers as x_transformers

# functions of q, k, v and a mask


def of_attention(attend, dtype, *, policy=None, grouped=True, true_means="visible"):
    """What applies to ``attend(q, k, v, mask)``, where the mask may be None."""

    def plain(q, k, v):
        return attend(q, k, v, None)

    reports = [
        scale(plain, dtype=dtype),
        polarity(attend, true_means=true_means, dtype=dtype),
        oracle(plain, right.attention, heads(dtype)),
    ]
    reports += [kv_order(plain, dtype=dtype)] if grouped else []
    if policy is not None:
        reports.append(empty_rows(attend, policy=policy, true_means=true_means, dtype=dtype))
    return reports


def headwise_attention(q, k, v, mask):
    if mask is None:
        return attention(q, k, v)
    pairs = mask.expand(q.shape[0], q.shape[1], -1, -1)
    return attention(q, k, v, mask=Explicit(pairs))


def fused(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, mask, enable_gqa=q.shape[1] != k.shape[1])


def by_hand(q, k, v, mask):
    """Grouped queries by repetition, a softmax in float32, zeros for a query that sees nothing."""
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = (q @ k.mT).float() * q.shape[-1] ** -0.5
    if mask is None:
        return scores.softmax(-1).to(v.dtype) @ v
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), -torch.inf).softmax(-1).masked_fill(empty, 0.0)
    return weights.to(v.dtype) @ v


def by_einsum(q, k, v, mask):
    """Grouped queries as an axis of their own; hidden scores get the smallest number there is."""
    batch, count, length, width = q.shape
    q = q.reshape(batch, k.shape[1], -1, length, width)
    scores = torch.einsum("bgrqd,bgkd->bgrqk", q, k) / math.sqrt(width)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, :, None], torch.finfo(scores.dtype).min)
    return torch.einsum("bgrqk,bgkd->bgrqd", scores.softmax(-1), v).reshape(batch, count, length, width)


class Settings(nn.Module):
    """What Hugging Face attention functions read from the layer that calls them."""

    def __init__(self, share):
        super().__init__()
        self.num_key_value_groups, self.is_causal = share, False


def hugging_face(function, q, k, v, mask):
    added = None
    if mask is not None:
        added = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, torch.finfo(q.dtype).min)
    layer = Settings(q.shape[1] // k.shape[1]).eval()
    output, _ = function(layer, q, k, v, added, scaling=q.shape[-1] ** -0.5)
    return output.transpose(1, 2)


def torch_function(q, k, v, mask):
    """torch's multi-head function with weights that change nothing; True hides."""
    width = q.shape[1] * q.shape[-1]
    one = torch.eye(width, dtype=q.dtype)
    q, k, v = (x.permute(2, 0, 1, 3).flatten(-2) for x in (q, k, v))
    batch, count = q.shape[1], width // 8 if width % 8 == 0 else 1
    count = width // HEAD_DIM[0]
    if mask is not None:
        mask = mask.expand(batch, count, -1, -1).flatten(0, 1)
    output, _ = multi_head_attention_forward(
        q, k, v, width, count, torch.cat((one, one, one)), None, None, None, False, 0.0, one, None, False,
        attn_mask=mask, need_weights=False,
    )  # fmt: skip
    return output.unflatten(-1, (count, -1)).permute(1, 2, 0, 3)


HEAD_DIM = [8]


def x_transformers_attend(flash):
    attend = x_transformers.Attend(flash=flash, causal=False, heads=2)
    return lambda q, k, v, mask: attend(q, k, v, mask=mask)[0]


# rotations


def of_rotation(rotate, dtype, *, pairs, head_dim=16, frequencies=None, keys=None, **claims):
    return [
        rotation(rotate, pairs=pairs, head_dim=head_dim, keys=keys, dtype=dtype, **claims),
        angles(
            rotate,
            keys=keys,
            head_dim=head_dim,
            frequencies=frequencies,
            pairs=pairs,
            dtypes=(dtype, torch.bfloat16),
        ),
    ]


def hugging_face_rotary(**settings):
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        head_dim=16,
        max_position_embeddings=256,
        rope_parameters=settings,
    )
    embedding = LlamaRotaryEmbedding(config)

    def rotate(x, positions):
        cosine, sine = embedding(x, positions[None])
        return apply_rotary_pos_emb(x, x, cosine, sine)[0]

    return rotate


def of_hugging_face(dtype, formula=None, scaled=False, **settings):
    rotate = hugging_face_rotary(**settings)
    reports = of_rotation(rotate, dtype, pairs="halves", frequencies=None, scaled=scaled)
    if formula is None:
        return reports
    gain = right.yarn_gain(settings["factor"]) if scaled else 1.0
    return [*reports, oracle(rotate, lambda x, p: gain * right.rotary(x, p, formula), turned(dtype))]


def gptj(x, positions):
    waves = create_sinusoidal_positions(int(positions.max()) + 1, x.shape[-1])[positions]
    sine, cosine = waves.chunk(2, -1)
    turned_wide = gptj_turn(x.float().transpose(1, 2), sine[None], cosine[None])
    return turned_wide.transpose(1, 2).to(x.dtype)


def x_transformers_rotary(x, positions):
    angle, _ = x_transformers.RotaryEmbedding(x.shape[-1])(positions)
    return x_transformers.apply_rotary_pos_emb(x.float(), angle).to(x.dtype)


def partial_rotary(x, positions):
    return torch.cat((turn(x[..., :8], positions[:, None] * speeds(8)), x[..., 8:]), -1)


def yarn(x, positions):
    angle = positions[:, None] * right.yarn(16, 4, 64).float()
    return (right.yarn_gain(4) * turn(x.float(), angle)).to(x.dtype)


def decay(power, x, positions):
    dim = x.shape[-1]
    base = (torch.arange(0, dim, 2).float() + 0.4 * dim) / (1.4 * dim)
    by = (base ** (power * positions[:, None] / 512)).repeat_interleave(2, -1)
    return (turn_neighbours(x.float(), positions[:, None] * speeds(dim)) * by).to(x.dtype)


def headwise_rotary(dtype, pairs):
    def layer():
        return MultiHeadAttention(24, heads=3, position=Rotary(pairs=pairs)).to(dtype)

    class Turning(nn.Module):
        def forward(self, x, positions):
            return Rotary(pairs=pairs).turn(x, positions)

    return [
        *of_rotation(
            Rotary(pairs=pairs).turn,
            dtype,
            pairs=pairs,
            frequencies=right.frequencies(16),
            shifts=(1, 1000, -3),
        ),
        oracle(
            Rotary(pairs=pairs).turn,
            lambda x, p: right.rotary(x, p, right.frequencies(x.shape[-1]), pairs),
            turned(dtype),
        ),
        lifecycle(Turning, turned(dtype)),
        *of_layer(layer, dtype),
    ]


# layers over sequences


def of_layer(make, dtype, *, width=24, trained=16, steps=("cast", "save", "copy", "meta"), drops=None):
    layer = make().eval()
    return [
        evaluation(layer, Vectors(width, dtype), drops=drops),
        lifecycle(make, Vectors(width, dtype), length=60, steps=steps),
        length(layer, Vectors(width, dtype), trained=trained),
    ]


def headwise_layer(dtype, make_position):
    def layer(mask=None):
        return MultiHeadAttention(24, heads=3, position=make_position(), mask=mask, dropout=0.2).to(dtype)

    one = layer().eval()

    def causal(x):
        return one(x, mask=Causal())

    return [
        *of_layer(layer, dtype, drops=True),
        effect({"mask": (one, causal)}, Vectors(24, dtype)),
        paths({"plain": one, "with weights": lambda x: one.with_weights(x).output}, Vectors(24, dtype)),
    ]


class TorchLayer(nn.Module):
    def __init__(self, weights=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 3, dropout=0.2, batch_first=True)
        self.weights = weights

    def forward(self, x):
        return self.attention(x, x, x, need_weights=self.weights)[0]


def torch_layer(dtype):
    layer = TorchLayer().to(dtype).eval()

    def with_weights(x):
        return layer.attention(x, x, x, need_weights=True)[0]

    return [
        *of_layer(lambda: TorchLayer().to(dtype), dtype, drops=True),
        paths({"without weights": layer, "with weights": with_weights}, Vectors(24, dtype)),
    ]


def torch_encoder(dtype):
    def make():
        return nn.TransformerEncoderLayer(24, 3, 32, batch_first=True).to(dtype)

    layer = make().eval()

    def fast(x):
        with torch.no_grad():
            return layer(x)

    return [
        *of_layer(make, dtype, drops=True),
        paths({"fast path": fast, "plain": layer}, Vectors(24, dtype)),
    ]


def x_transformers_layer(dtype, flash):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = x_transformers.Attention(24, dim_head=8, heads=3, causal=True, flash=flash)

        def forward(self, x):
            return self.attention(x)

    return of_layer(lambda: Layer().to(dtype), dtype)


class FromTable(nn.Module):
    """A table of 16 positions that is refused beyond its end."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 24)
        self.layer = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x):
        if x.shape[1] > 16:
            raise ValueError(f"length {x.shape[1]} exceeds the 16 positions there are")
        x = x + self.table(torch.arange(x.shape[1]))
        return self.layer(x, x, x, need_weights=False)[0]


def from_table(dtype):
    make = lambda: FromTable().to(dtype)  # noqa: E731
    return [
        evaluation(make().eval(), Vectors(24, dtype)),
        lifecycle(make, Vectors(24, dtype), length=16),
        length(make().eval(), Vectors(24, dtype), trained=16),
    ]


# biases


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
        biases.of_heads(lambda count: ALiBi(count).slopes(), right.alibi_slopes)(dtype),
        *headwise_layer(dtype, lambda: ALiBi(heads=3)),
    ]


def x_transformers_alibi(dtype):
    def slopes(count):
        return x_transformers.AlibiPositionalBias(count).slopes.flatten()

    def bias(queries, keys):
        return x_transformers.AlibiPositionalBias(biases.HEADS)(queries, keys)

    return [
        biases.of_heads(slopes, right.alibi_slopes)(dtype),
        *with_bias(bias, biases.alibi)(dtype),
    ]


def bloom_alibi(dtype):
    """Counted from the key alone, which a softmax cannot tell from the distance under a causal mask."""

    def bias(queries, keys):
        return build_alibi_tensor(torch.ones(1, keys), biases.HEADS, torch.float32).expand(-1, queries, -1)

    return with_bias(bias, biases.alibi, causal=True)(dtype)


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


# tables and grids


def sinusoidal(dtype):
    def table(n, dim):
        return Sinusoidal().table(torch.arange(n), dim, torch.float32).to(dtype)

    return [
        oracle(partial(table, dim=dim), lambda n, dim=dim: right.sinusoidal(n, dim), lambda n: (n,))
        for dim in (4, 5, 8)
    ] + headwise_layer(dtype, Sinusoidal)


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


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "factor": 4.0,
    "short_factor": [1.0] * 8,
    "long_factor": [2.0] * 8,
    "original_max_position_embeddings": 64,
}
DEFAULT = {"rope_type": "default", "rope_theta": 1e4}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}


def hidden_by_true(q, k, v, mask):
    HEAD_DIM[0] = q.shape[-1]
    return torch_function(q, k, v, mask)


def x_transformers_paths(dtype):
    ways = {"flash": x_transformers_attend(True), "plain": x_transformers_attend(False)}
    return [
        *of_attention(ways["plain"], dtype, grouped=False, policy="zeros"),
        *of_attention(ways["flash"], dtype, grouped=False, policy="zeros"),
        paths({name: partial(way, mask=None) for name, way in ways.items()}, heads(dtype, 2)),
    ]


def all_paths(dtype):
    def given(count):
        return (*heads(dtype, 6, 2)(count), right.causal(count, count)[None, None])

    ways = {"headwise": headwise_attention, "fused": fused, "by hand": by_hand, "by einsum": by_einsum}
    return [paths(ways, given)]


SOUND = [
    Sound("headwise attention", lambda dtype: of_attention(headwise_attention, dtype, policy="zeros")),
    Sound("scaled_dot_product_attention", lambda dtype: of_attention(fused, dtype, policy="zeros")),
    Sound("softmax attention by hand", lambda dtype: of_attention(by_hand, dtype, policy="zeros")),
    Sound("grouped queries by einsum", lambda dtype: of_attention(by_einsum, dtype, policy="mean")),
    Sound("four ways to attend", all_paths),
    Sound(
        "Hugging Face eager attention",
        lambda dtype: of_attention(partial(hugging_face, eager_attention_forward), dtype, policy="finite"),
    ),
    Sound(
        "Hugging Face sdpa attention",
        lambda dtype: of_attention(partial(hugging_face, sdpa_attention_forward), dtype, policy="finite"),
    ),
    Sound(
        "torch's multi-head function",
        lambda dtype: of_attention(hidden_by_true, dtype, grouped=False, true_means="hidden"),
    ),
    Sound("x-transformers Attend", x_transformers_paths),
    Sound("nn.MultiheadAttention", torch_layer),
    Sound("nn.TransformerEncoderLayer", torch_encoder),
    Sound("x-transformers Attention", lambda dtype: x_transformers_layer(dtype, flash=False)),
    Sound("x-transformers Attention, flash", lambda dtype: x_transformers_layer(dtype, flash=True)),
    Sound("headwise, no position", lambda dtype: headwise_layer(dtype, NoPosition)),
    Sound("headwise, learned positions", lambda dtype: headwise_layer(dtype, lambda: Learned(64, 24))),
    Sound("headwise, sinusoidal", sinusoidal),
    Sound("headwise, rotary in halves", lambda dtype: headwise_rotary(dtype, "halves")),
    Sound("headwise, rotary in neighbours", lambda dtype: headwise_rotary(dtype, "neighbours")),
    Sound("headwise, ALiBi", headwise_alibi),
    Sound("a table that refuses what is too long", from_table),
    Sound("Hugging Face rotary", lambda dtype: of_hugging_face(dtype, right.frequencies(16), **DEFAULT)),
    Sound(
        "Hugging Face rotary, linear",
        lambda dtype: of_hugging_face(dtype, right.frequencies(16) / 4, **LINEAR),
    ),
    Sound(
        "Hugging Face rotary, YaRN", lambda dtype: of_hugging_face(dtype, right.yarn(16, 4, 64), True, **YARN)
    ),
    Sound(
        "Hugging Face rotary, Llama-3",
        lambda dtype: of_hugging_face(dtype, right.llama3(16, 8, 64), **LLAMA3),
    ),
    Sound("Hugging Face rotary, LongRoPE", lambda dtype: of_hugging_face(dtype, None, True, **LONG)),
    Sound("GPT-J's rotary", lambda dtype: of_rotation(gptj, dtype, pairs="neighbours")),
    Sound(
        "x-transformers rotary", lambda dtype: of_rotation(x_transformers_rotary, dtype, pairs="neighbours")
    ),
    Sound(
        "partial rotary",
        lambda dtype: of_rotation(
            partial_rotary, dtype, pairs="halves", rotary_dim=8, frequencies=right.frequencies(8)
        ),
    ),
    Sound("YaRN by hand", lambda dtype: of_rotation(yarn, dtype, pairs="halves", scaled=True)),
    Sound(
        "xPos by hand",
        lambda dtype: [
            rotation(
                partial(decay, 8.0), keys=partial(decay, -8.0), decays=True, pairs="neighbours", dtype=dtype
            )
        ],
    ),
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
