"""Rotations without a fault: every property that applies must hold."""

from functools import partial

import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_turn
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from headwise.check import angles, lifecycle, oracle, rotation
from headwise.layers import MultiHeadAttention, Rotary
from tests.faults import formulas as right
from tests.faults.fault import Sound
from tests.faults.inputs import turned
from tests.faults.peers import x_transformers
from tests.faults.rotation import speeds, turn, turn_neighbours
from tests.faults.sound_layers import of_layer


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


SOUND = [
    Sound("headwise, rotary in halves", lambda dtype: headwise_rotary(dtype, "halves")),
    Sound("headwise, rotary in neighbours", lambda dtype: headwise_rotary(dtype, "neighbours")),
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
]
