"""Heads, scale and masks with one classic fault each."""

import torch

from headwise.check import (
    empty_rows,
    kv_order,
    oracle,
    polarity,
    scale,
)
from tests.faults import formulas as right
from tests.faults.fault import Fault
from tests.faults.inputs import heads


def attend(q, k, v, mask=None, by=None):
    """Attention by hand, in the dtype of q."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if by is None else by)
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1) @ v


def tiled(q, k, v):
    k, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v))
    return attend(q, k, v)


def values_tiled(q, k, v):
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat_interleave(share, 1), v.repeat(1, share, 1, 1))


def split_the_other_way(q, k, v):
    """Query heads as [share kv_heads] where [kv_heads share] is meant."""
    batch, count, length, width = q.shape
    q = q.reshape(batch, -1, k.shape[1], length, width)
    return attend(q, k[:, None], v[:, None]).reshape(batch, count, length, width)


def multiplied(q, k, v):
    return attend(q, k, v, by=q.shape[-1] ** 0.5)


def by_model_dim(q, k, v):
    return attend(q, k, v, by=(q.shape[1] * q.shape[-1]) ** -0.5)


def by_heads(q, k, v):
    return attend(q, k, v, by=q.shape[1] ** -0.5)


def flipped(q, k, v, mask):
    return attend(q, k, v, ~mask)


def mask_in_the_slot_of_dropout(q, k, v, mask):
    def attention(q, k, v, deterministic=True, mask=None):
        return attend(q, k, v, mask)

    return attention(q, k, v, mask)


def not_hidden_enough(q, k, v, mask):
    return (q @ k.mT * q.shape[-1] ** -0.5 - 10_000.0 * (~mask).to(q.dtype)).softmax(-1) @ v


def nothing_over_nothing(q, k, v, mask):
    return attend(q, k, v, mask)


def hidden_by_the_smallest_number(q, k, v, mask):
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
    return scores.softmax(-1) @ v


def patched_after_the_softmax(q, k, v, mask):
    hidden = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    weights = (q @ k.mT * q.shape[-1] ** -0.5 + hidden).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), weights, 0.0) @ v  # right forward, not backward


def normalised_after_the_turn(dtype):
    weight = torch.linspace(0.5, 2.0, 8)

    def norm(x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.to(x.dtype)

    def turn(x):
        return right.rotary(x, torch.arange(x.shape[2]), right.frequencies(8)).to(x.dtype)

    return oracle(
        lambda q, k, v: attend(norm(turn(q)), norm(turn(k)), v),
        lambda q, k, v: right.attention(turn(norm(q)), turn(norm(k)), v),
        heads(dtype),
    )


def masked(wrong):
    return lambda dtype: polarity(wrong, dtype=dtype)


def of_scale(wrong):
    return lambda dtype: scale(wrong, dtype=dtype)


def of_order(wrong):
    return lambda dtype: kv_order(wrong, dtype=dtype)


def of_nothing(wrong):
    return lambda dtype: empty_rows(wrong, dtype=dtype)


FAULTS = [
    Fault("key/value heads tiled", "kv_order", "onnx#7274", of_order(tiled)),
    Fault("values tiled, keys in blocks", "kv_order", "axlearn#842", of_order(values_tiled)),
    Fault("query heads split the other way", "kv_order", "jax-js#180", of_order(split_the_other_way)),
    Fault("multiplied by sqrt(head_dim)", "scale", "perceiver-io#9", of_scale(multiplied)),
    Fault("divided by sqrt(model_dim)", "scale", "FareedKhan#3", of_scale(by_model_dim)),
    Fault("divided by sqrt(heads)", "scale", "diffusers#929", of_scale(by_heads)),
    Fault("True taken for hidden", "polarity", "TransformerEngine#614", masked(flipped)),
    Fault(
        "the mask in the slot of dropout", "polarity", "equinox 69c8fb5", masked(mask_in_the_slot_of_dropout)
    ),
    Fault("hidden keys get -10000", "polarity", "flash-attention SelfAttention", masked(not_hidden_enough)),
    Fault(
        "a query that sees nothing: 0 / 0", "empty_rows", "pytorch#41508", of_nothing(nothing_over_nothing)
    ),
    Fault(
        "a query that sees nothing reads everything",
        "empty_rows",
        "keras#21149",
        of_nothing(hidden_by_the_smallest_number),
    ),
    Fault(
        "a query that sees nothing: right forward alone",
        "empty_rows",
        "pytorch#160064",
        of_nothing(patched_after_the_softmax),
    ),
    Fault("normalised after the turn", "oracle", "torchtune#2809", normalised_after_the_turn),
]
