"""ALiBi with one classic fault each."""

import math

import torch

from headwise.check import oracle
from tests.faults import formulas as right
from tests.faults.biases import HEADS, distance, in_attention
from tests.faults.fault import Fault
from tests.faults.inputs import heads


def slopes(count):
    return right.alibi_slopes(count).float()[:, None, None]


def of_heads(wrong, formula, numbers=(*range(1, 14), 16, 24, 32, 40)):
    """A check of one number for each head."""
    return lambda dtype: oracle(
        lambda count: wrong(count).to(dtype), formula, lambda count: (count,), sizes=numbers, axis="heads"
    )


def alibi(queries, keys):
    return right.alibi(HEADS, queries, keys)


def alibi_far_is_near(queries, keys):
    return slopes(HEADS) * distance(queries, keys).abs()


def alibi_from_the_front(queries, keys):
    return -slopes(HEADS) * (torch.arange(keys) - torch.arange(queries)[:, None]).abs()


def alibi_nothing_in_decoding(queries, keys):
    return torch.zeros(HEADS, queries, keys) if queries == 1 else alibi(queries, keys)


def slopes_of_powers_alone(count):
    return 2.0 ** (-8.0 * torch.arange(1, count + 1) / count)


def slopes_from_head_zero(count):
    return right.alibi_slopes(count) * 2.0 ** (8 / 2 ** int(math.log2(count)))


def slopes_in_the_wrong_heads(dtype):
    def padded(queries, keys):
        some = right.alibi(2, queries, keys).float()
        return torch.nn.functional.pad(some, (0, 0, 0, 0, 1, 0))  # before the heads, not after

    def formula(queries, keys):
        some = right.alibi(2, queries, keys)
        return torch.cat((some, torch.zeros_like(some[:1])))

    return in_attention(padded, formula)(dtype)


def alibi_inside_the_scale(dtype):
    def f(q, k, v):
        scores = (q @ k.mT).float() + alibi(q.shape[2], k.shape[2]).float()
        return (scores / q.shape[-1] ** 0.5).softmax(-1).to(v.dtype) @ v

    def want(q, k, v):
        return right.attention(q, k, v, alibi(q.shape[2], k.shape[2]))

    return oracle(f, want, heads(dtype, HEADS))


FAULTS = [
    Fault("far keys favoured", "oracle", "attention-gym#86", in_attention(alibi_far_is_near, alibi)),
    Fault(
        "slopes by one formula for every number of heads",
        "oracle",
        "transformers#28380",
        of_heads(slopes_of_powers_alone, right.alibi_slopes),
    ),
    Fault(
        "slopes of attention-gym for 12 heads",
        "oracle",
        "attention-gym mods/alibi.py",
        of_heads(slopes_of_powers_alone, right.alibi_slopes, numbers=(12,)),
    ),
    Fault(
        "slopes off by one head",
        "oracle",
        "aprender#2143",
        of_heads(slopes_from_head_zero, right.alibi_slopes),
    ),
    Fault("slopes padded before the heads", "oracle", "x-transformers#85", slopes_in_the_wrong_heads),
    Fault(
        "distances counted from the front while decoding",
        "oracle",
        "flash-attention#907",
        in_attention(alibi_from_the_front, alibi, queries=1),
    ),
    Fault(
        "no bias while decoding",
        "oracle",
        "vllm#945",
        in_attention(alibi_nothing_in_decoding, alibi, queries=1),
    ),
    Fault("the bias inside the scale", "oracle", "TransformerLens#777", alibi_inside_the_scale),
]
