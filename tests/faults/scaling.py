"""Frequencies of rotations with one classic fault each: scalings, bases, options that do not arrive."""

import math

import torch

from headwise.check import Report, effect, oracle, paths
from tests.faults import formulas as right
from tests.faults.fault import Fault
from tests.faults.inputs import turned
from tests.faults.rotation import speeds, turn, turn_neighbours


def of_frequencies(frequencies, formula, **sizes):
    """A check that a rotation by ``frequencies(size)`` is the one by ``formula(size)``."""

    def check(dtype) -> Report:
        def rotate(x, positions):
            return turn(x, positions[:, None].float() * torch.as_tensor(frequencies(x.shape[-1])).float())

        def want(x, positions):
            return right.rotary(x, positions, formula(x.shape[-1]))

        return oracle(rotate, want, turned(dtype, head_dim=64), **{"sizes": (1, 2, 17, 33), **sizes})

    return check


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


FAULTS = [
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
]
