"""Rotations with one classic fault each: pairs, frequencies, scalings, precision, grids."""

import math

import torch
from torch import nn

from headwise.check import Report, Vectors, angles, axes, effect, length, lifecycle, oracle, paths, rotation
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


def of_frequencies(frequencies, formula, **sizes):
    """A check that a rotation by ``frequencies(size)`` is the one by ``formula(size)``."""

    def check(dtype) -> Report:
        def rotate(x, positions):
            return turn(x, positions[:, None].float() * torch.as_tensor(frequencies(x.shape[-1])).float())

        def want(x, positions):
            return right.rotary(x, positions, formula(x.shape[-1]))

        return oracle(rotate, want, turned(dtype, head_dim=64), **{"sizes": (1, 2, 17, 33), **sizes})

    return check


# pairs and signs


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


# precision


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


# scalings


def llama3_unscaled(dim):
    _scaled = right.llama3(dim, 8, 8192)  # computed, then forgotten
    return speeds(dim, 500000.0)


def yarn_inverted(dim, factor=40, original=4096):
    def bound(count):
        return dim * math.log(original / (2 * math.pi * count)) / (2 * math.log(10000))

    low, high = math.floor(bound(32)), math.ceil(bound(1))
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    return speeds(dim) * ramp + speeds(dim) / factor * (1 - ramp)


def yarn_clamped_to_half(dim, factor=40, original=65536):
    def bound(count):
        return dim * math.log(original / (2 * math.pi * count)) / (2 * math.log(10000))

    low, high = math.floor(bound(32)), min(math.ceil(bound(1)), dim // 2 - 1)
    ramp = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    return speeds(dim) * (1 - ramp) + speeds(dim) / factor * ramp


def yarn_gain_on_neither(dtype):
    theta = right.yarn(64, 40, 4096)

    def want(x, positions):
        return right.rotary(x, positions, theta) * right.yarn_gain(40)

    return oracle(
        lambda x, positions: turn(x, positions[:, None] * theta.float()), want, turned(dtype, head_dim=64)
    )


def dynamic_at_every_length(dtype):
    def rotate(x, positions):
        return turn(x, positions[:, None] * speeds(16, right.ntk(16, 4)))  # as if at four times the length

    def want(x, positions):
        return right.rotary(x, positions, right.frequencies(16, right.dynamic_ntk(16, x.shape[2], 32, 4)))

    return oracle(rotate, want, turned(dtype), sizes=(2, 8, 31))


def long_factors_at_the_original_length(dtype, original=17):
    short, long = 1.0, 4.0

    def rotate(x, positions):
        return turn(x, positions[:, None] * speeds(16) / (short if x.shape[2] < original else long))

    def want(x, positions):
        return right.rotary(x, positions, right.frequencies(16) / (short if x.shape[2] <= original else long))

    return oracle(rotate, want, turned(dtype), sizes=(2, 16, 17, 18))


def partial_denominator(dtype):
    theta = 1.0 / 10000.0 ** (torch.arange(0, 16, 2) / 64)  # over head_dim, where 16 dimensions turn

    def rotate(x, positions):
        return torch.cat((turn(x[..., :16], positions[:, None] * theta), x[..., 16:]), -1)

    return oracle(
        rotate,
        lambda x, positions: right.rotary(x, positions, right.frequencies(16)),
        turned(dtype, head_dim=64),
    )


def partial_ignored(dtype):
    class Rotary:
        def __init__(self, share):
            self.share = share

        def __call__(self, x, positions):
            return turn(x, positions[:, None] * speeds(x.shape[-1]))

    return effect({"partial_rotary_factor": (Rotary(1.0), Rotary(0.25))}, turned(dtype))


def layout_not_passed_down(dtype):
    def block(x, positions, half=False):
        return (turn if half else turn_neighbours)(x, positions[:, None] * speeds(16))

    def model(x, positions, half=False):
        return block(x, positions)

    return effect({"half": (model, lambda x, p: model(x, p, half=True))}, turned(dtype))


def truncation_not_read(dtype):
    def rotate(x, positions, truncate):
        settings = {"full": {"factor": 32.0, "truncate": truncate}}
        low, high = 8.0928, 17.3980
        if settings.get("truncate", True):  # at the top, where it never is
            low, high = math.floor(low), math.ceil(high)
        ramp = ((torch.arange(32) - low) / (high - low)).clamp(0, 1)
        return turn(x, positions[:, None] * speeds(64, 150000.0) * (1 - ramp + ramp / 32))

    options = {"truncate=False": (lambda x, p: rotate(x, p, True), lambda x, p: rotate(x, p, False))}
    return effect(options, turned(dtype, head_dim=64))


def two_bases(dtype):
    def built(base):
        return lambda x, positions: turn(x, positions[:, None] * speeds(16, base))

    return paths({"base model": built(500000.0), "with adapters": built(10000.0)}, turned(dtype))


# tables of waves


def exponent_doubled(length, dim):
    table = torch.zeros(length, dim)
    for i in range(0, dim, 2):
        at = torch.arange(length)
        table[:, i] = (at / 10000 ** (2 * i / dim)).sin()
        table[:, i + 1] = (at / 10000 ** (2 * i / dim)).cos()
    return table


def odd_width_refused(length, dim):
    table = torch.zeros(length, dim)
    at = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
    table[:, 0::2], table[:, 1::2] = at.sin(), at.cos()
    return table


def table_of(make, dim):
    def check(dtype):
        return oracle(
            lambda n: make(n, dim).to(dtype),
            lambda n: right.sinusoidal(n, dim),
            lambda n: (n,),
            sizes=(1, 2, 9),
        )

    return check


def table_read_at(places):
    """A model of 16 positions that reads its table at ``places(length)``."""

    def check(dtype):
        table = right.sinusoidal(16, 8).to(dtype)

        def f(x):
            x = x + table[places(x.shape[1])]
            return (x @ x.mT / 8**0.5).softmax(-1) @ x

        return length(f, Vectors(8, dtype), trained=16)

    return check


class LostFrequencies(nn.Module):
    """Frequencies in a buffer that is not saved, made once."""

    def __init__(self):
        super().__init__()
        self.register_buffer("speeds", speeds(16), persistent=False)

    def forward(self, x, positions):
        return turn(x, positions[:, None] * self.speeds.float())


# grids


def wave(at, channels=4):
    return torch.cat([f(at[..., None] * speeds(channels)) for f in (torch.sin, torch.cos)], -1)


def height_and_width_swapped(height, width):
    row, column = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="ij")
    return torch.cat((wave(row.flatten().float()), wave(column.flatten().float())), -1)


def columns_first(height, width):
    column, row = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")
    return torch.cat((wave(column.flatten().float()), wave(row.flatten().float())), -1)


def square_assumed(height, width):
    table = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(9.0), indexing="ij"), -1)
    side = int(table[..., 0].numel() ** 0.5)  # 36 cells, so 6 x 6
    table = table.reshape(1, side, side, 2).permute(0, 3, 1, 2)
    resized = nn.functional.interpolate(table, size=(height, width), mode="bilinear", align_corners=True)
    return resized[0].permute(1, 2, 0)


def on_grid(encode, **claims):
    return lambda dtype: axes(lambda height, width: encode(height, width).to(dtype), **claims)


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
    Fault(
        "Llama-3 scaling computed, not returned",
        "oracle",
        "transformers#32330",
        of_frequencies(llama3_unscaled, lambda dim: right.llama3(dim, 8, 8192), sizes=(300, 400)),
    ),
    Fault(
        "Llama-3 scaling from the current context",
        "oracle",
        "TransformerLens#910",
        of_frequencies(
            lambda dim: right.llama3(dim, 8, 2048), lambda dim: right.llama3(dim, 8, 8192), sizes=(64, 400)
        ),
    ),
    Fault(
        "YaRN's ramp the other way round",
        "oracle",
        "litgpt#2202",
        of_frequencies(yarn_inverted, lambda dim: right.yarn(dim, 40, 4096)),
    ),
    Fault(
        "YaRN's upper bound clamped to half the dimensions",
        "oracle",
        "litgpt build_rope_cache",
        of_frequencies(yarn_clamped_to_half, lambda dim: right.yarn(dim, 40, 65536), sizes=(64, 1400)),
    ),
    Fault("YaRN's gain on neither sines nor cosines", "oracle", "vllm#48623", yarn_gain_on_neither),
    Fault("dynamic scaling at every length", "oracle", "vllm#5093", dynamic_at_every_length),
    Fault(
        "positions doubled unless scaling is linear",
        "oracle",
        "mlx-lm#1606",
        of_frequencies(lambda dim: 2.0 * speeds(dim), right.frequencies),
    ),
    Fault(
        "long factors at exactly the original length",
        "oracle",
        "unsloth#10681",
        long_factors_at_the_original_length,
    ),
    Fault("partial rotary over the whole head_dim", "oracle", "maxtext#4616", partial_denominator),
    Fault("partial_rotary_factor ignored", "effect", "transformers#48652", partial_ignored),
    Fault("the layout is not passed to the blocks", "effect", "timm 0184b76a", layout_not_passed_down),
    Fault(
        "an option read from the wrong dictionary",
        "effect",
        "transformers modeling_rope_utils, truncate",
        truncation_not_read,
    ),
    Fault("two builders, two bases", "paths", "torchtune#997", two_bases),
    Fault(
        "the sinusoid's exponent doubled",
        "oracle",
        "SamLynnEvans/Transformer#25",
        table_of(exponent_doubled, 4),
    ),
    Fault("an odd width", "oracle", "pyaptamer#526", table_of(odd_width_refused, 5)),
    Fault(
        "positions clamped to the last of a table",
        "length",
        "profam#142",
        table_read_at(lambda count: torch.arange(count).clamp(max=15)),
    ),
    Fault("a table that is read past its end", "length", "transformers#8077", table_read_at(torch.arange)),
    Fault("height and width swapped", "axes", "timm 33791c8f", on_grid(height_and_width_swapped)),
    Fault(
        "columns turn the half of the rows",
        "axes",
        "timm 33791c8f",
        on_grid(columns_first, first="rows"),
    ),
    Fault("a square table assumed", "axes", "timm 3ae3f442", on_grid(square_assumed, trained=(4, 9))),
]
