"""Rotations with one classic fault each: pairs, signs, precision."""

import torch
from torch import nn

from headwise.check import angles, lifecycle, rotation
from tests.faults import formulas as right
from tests.faults.fault import Fault
from tests.faults.inputs import turned


def speeds(dim, base=10000.0):
    return 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)


def turn(x, angle):
    """Turn halves of the dimensions by angles [length pairs], in float32."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1).to(x.dtype)


def turn_neighbours(x, angle):
    a, b = x[..., ::2].float(), x[..., 1::2].float()
    pairs = torch.stack((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)
    return pairs.flatten(-2).to(x.dtype)


def neighbours_split_halves_turned(x, positions):
    angle = (positions[:, None].float() * speeds(x.shape[-1])).repeat_interleave(2, -1)
    a, b = x[..., ::2].float(), x[..., 1::2].float()
    return (x.float() * angle.cos() + torch.cat((-b, a), -1) * angle.sin()).to(x.dtype)


def neighbours(x, positions):
    return turn_neighbours(x, positions[:, None].float() * speeds(x.shape[-1]))


def distance_without_sign(x, positions):
    return turn(x, positions.abs()[:, None].float() * speeds(x.shape[-1]))


def decay(x, positions, power):
    """xPos: a scale for each pair that grows with the position, here repeated for the wrong layout."""
    dim = x.shape[-1]
    base = (torch.arange(0, dim, 2).float() + 0.4 * dim) / (1.4 * dim)
    by = (base ** (power * positions[:, None] / 512)).repeat(1, 2)  # halves, while neighbours turn
    return (neighbours(x.float(), positions) * by).to(x.dtype)


def queries_decay(x, positions):
    return decay(x, positions, 64.0)


def keys_decay(x, positions):
    return decay(x, positions, -64.0)


def keys_decay_as_queries(x, positions):
    dim = x.shape[-1]
    base = (torch.arange(0, dim, 2).float() + 0.4 * dim) / (1.4 * dim)
    by = (base ** (8.0 * positions[:, None] / 512)).repeat_interleave(2, -1)
    return (neighbours(x.float(), positions) * by).to(x.dtype)


def positions_in_half_precision(x, positions):
    low = torch.bfloat16 if x.dtype == torch.float32 else x.dtype
    angle = positions.to(low if x.dtype == torch.bfloat16 else torch.float32)[:, None]
    return turn(x, (angle * speeds(x.shape[-1])).float())


def frequencies_in_half_precision(x, positions):
    return turn(x, positions[:, None].float() * speeds(x.shape[-1]).bfloat16().float())


def result_in_the_dtype_of_the_table(x, positions):
    angle = positions[:, None].float() * speeds(x.shape[-1])
    a, b = x.chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


class CastableFrequencies(nn.Module):
    """Frequencies in a buffer that .to(dtype) rounds, positions in their dtype."""

    def __init__(self, persistent):
        super().__init__()
        self.register_buffer("speeds", speeds(16), persistent=persistent)

    def forward(self, x, positions):
        return turn(x, (positions.to(self.speeds.dtype)[:, None] * self.speeds).float())


class LostFrequencies(nn.Module):
    """Frequencies in a buffer that is not saved, made once."""

    def __init__(self):
        super().__init__()
        self.register_buffer("speeds", speeds(16), persistent=False)

    def forward(self, x, positions):
        return turn(x, positions[:, None] * self.speeds.float())


FAULTS = [
    Fault(
        "neighbours are split, halves turn",
        "rotation",
        "rotary-embedding-torch 204cb02",
        lambda dtype: rotation(neighbours_split_halves_turned, dtype=dtype),
    ),
    Fault(
        "the layout of another family",
        "rotation",
        "mlx-lm#1431",
        lambda dtype: rotation(neighbours, pairs="halves", dtype=dtype),
    ),
    Fault(
        "negative positions lose their sign",
        "rotation",
        "flash-linear-attention#902",
        lambda dtype: rotation(distance_without_sign, shifts=(1, -3), dtype=dtype),
    ),
    Fault(
        "the decay of xPos laid out in halves, the angles in neighbours",
        "rotation",
        "rotary-embedding-torch 2605ece",
        lambda dtype: rotation(queries_decay, keys=keys_decay, decays=True, shifts=(17,), dtype=dtype),
    ),
    Fault(
        "keys decay as queries do",
        "rotation",
        "rotary-embedding-torch 4ae4ca0",
        lambda dtype: rotation(
            keys_decay_as_queries, keys=keys_decay_as_queries, decays=True, dtype=dtype, shifts=(17,)
        ),
    ),
    Fault(
        "positions in the dtype of the queries",
        "angles",
        "transformers#25681",
        lambda dtype: angles(positions_in_half_precision, head_dim=16),
    ),
    Fault(
        "frequencies in bfloat16",
        "angles",
        "transformers#29285",
        lambda dtype: angles(
            frequencies_in_half_precision, head_dim=16, dtypes=(dtype,), frequencies=right.frequencies(16)
        ),
    ),
    Fault(
        "the result in the dtype of the table",
        "angles",
        "xformers#779",
        lambda dtype: angles(result_in_the_dtype_of_the_table, head_dim=16),
    ),
    Fault(
        "frequencies in a buffer that a cast rounds",
        "lifecycle",
        "x-transformers RotaryEmbedding",
        lambda dtype: lifecycle(
            lambda: CastableFrequencies(persistent=False), turned(dtype), steps=("cast",)
        ),
    ),
    Fault(
        "frequencies that are saved, and rounded by a cast",
        "lifecycle",
        "TransformerEngine RotaryPositionEmbedding",
        lambda dtype: lifecycle(lambda: CastableFrequencies(persistent=True), turned(dtype)),
    ),
    Fault(
        "frequencies lost on the meta device",
        "lifecycle",
        "unsloth#4112",
        lambda dtype: lifecycle(LostFrequencies, turned(dtype), length=40, steps=("save", "copy", "meta")),
    ),
]
