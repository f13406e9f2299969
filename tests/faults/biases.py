"""Biases on the scores with one classic fault each: T5, Transformer-XL, FIRE, KERPLE, CoPE."""

import math

import torch

from headwise.check import oracle
from tests.faults import formulas as right
from tests.faults.fault import Fault
from tests.faults.inputs import heads

HEADS = 3


def attend(q, k, v, bias, visible=None):
    scores = (q @ k.mT).float() / q.shape[-1] ** 0.5 + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1).to(v.dtype) @ v


def distance(queries, keys):
    """Key position minus query position; the queries are the last places."""
    return torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]


def in_attention(wrong, formula, *, causal=False, queries=None, **sizes):
    """A check that attention with one bias, made for ``(queries, keys)``, is that with another."""

    def check(dtype):
        def f(q, k, v):
            n, m = q.shape[2], k.shape[2]
            return attend(q, k, v, wrong(n, m).float(), right.causal(n, m) if causal else None)

        def want(q, k, v):
            n, m = q.shape[2], k.shape[2]
            return right.attention(q, k, v, formula(n, m), right.causal(n, m) if causal else None)

        return oracle(f, want, heads(dtype, HEADS, queries=queries), **sizes)

    return check


def bucket(apart, causal, largest=128, count=32):
    """The rule in whole numbers and a float32 logarithm."""
    start, kinds = 0, count
    if not causal:
        kinds = count // 2
        start = (apart > 0).long() * kinds
        apart = apart.abs()
    else:
        apart = (-apart).clamp(min=0)
    exact = kinds // 2
    ratio = (apart.clamp(min=1) / exact).log() / math.log(largest / exact)
    far = exact + (ratio * (kinds - exact)).long().clamp(max=kinds - 1 - exact)
    return start + torch.where(apart < exact, apart, far)


def buckets(wrong, causal):
    return lambda dtype: oracle(
        lambda length: wrong(distance(length, length)),
        lambda length: right.t5_bucket(distance(length, length), causal),
        lambda length: (length,),
        sizes=(1, 2, 9, 40, 150),
    )


TABLE = torch.randn(HEADS, 32, generator=torch.Generator().manual_seed(0))


def t5(queries, keys):
    return TABLE.double()[:, right.t5_bucket(distance(queries, keys), causal=True)]


def t5_without_offset(queries, keys):
    apart = torch.arange(keys) - torch.arange(queries)[:, None]
    return TABLE[:, bucket(apart, causal=True)]


def rows_of_distance(width, count):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1))


def shifted(x):
    """The reshape that turns distances into keys, right at and below the diagonal alone."""
    *first, queries, places = x.shape
    padded = torch.cat((x.new_zeros(*first, queries, 1), x), -1)
    return padded.reshape(*first, places + 1, queries)[..., 1:, :].reshape(*first, queries, places)


def shift_in_both_directions(dtype):
    def f(q, k, v):
        n = k.shape[2]
        table = rows_of_distance(8, 2 * n - 1)
        past = torch.einsum("bhqd,kd->bhqk", q.float(), table[:n])  # from the farthest back to 0
        return attend(q, k, v, shifted(past) / 8**0.5)

    def want(q, k, v):
        n = k.shape[2]
        r = torch.einsum("bhqd,kd->bhqk", q.double(), rows_of_distance(8, 2 * n - 1).double())
        return right.attention(q, k, v, right.relative_scores(r, n, n) / 8**0.5)

    return oracle(f, want, heads(dtype, HEADS))


def fire_smaller_not_larger(queries, keys):
    back = -distance(queries, keys).clamp(max=0).float()
    query = torch.arange(keys - queries, keys)[:, None].float()
    return 8 * (0.1 * back + 1).log() / (0.1 * query.clamp(max=16.0) + 1).log().clamp(min=0.05)


def fire(queries, keys):
    back = -distance(queries, keys).clamp(max=0)
    query = torch.arange(keys - queries, keys)[:, None]
    return 8 * right.fire(back, query, limit=16.0)


def kerple_distance_in_half_precision(length):
    back = -distance(1, length)[0]
    return -2.0 * (1 + 0.5 * back.bfloat16().float()).log()


def kerple(length):
    return -2.0 * (1 + 0.5 * -distance(1, length)[0].double()).log()


def cope_masked_after_the_gate(dtype):
    table = torch.randn(HEADS, 1, 1, 6, generator=torch.Generator().manual_seed(2))

    def table_of(scores):
        return table.transpose(0, 1).expand(*scores.shape[:2], scores.shape[2], -1)

    def f(q, k, v):
        scores = (q @ k.mT).float() / q.shape[-1] ** 0.5
        everything = torch.ones(scores.shape[-2:], dtype=torch.bool)
        bias = right.cope(scores, table_of(scores), everything).float()  # gates of the future count too
        return attend(q, k, v, bias, right.causal(*everything.shape))

    def want(q, k, v):
        scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
        visible = right.causal(*scores.shape[-2:])
        return right.attention(q, k, v, right.cope(scores, table_of(scores), visible), visible)

    return oracle(f, want, heads(dtype, HEADS), depth=2)


FAULTS = [
    Fault(
        "causal buckets for a model that looks both ways",
        "oracle",
        "x-transformers#10",
        buckets(lambda apart: bucket(apart, causal=True), causal=False),
    ),
    Fault(
        "buckets of both ways for a causal model",
        "oracle",
        "x-transformers#10",
        buckets(lambda apart: bucket(apart, causal=False), causal=True),
    ),
    Fault(
        "T5 without the offset of the cache",
        "oracle",
        "x-transformers#103",
        in_attention(t5_without_offset, t5, queries=1, causal=True, sizes=(1, 5, 40)),
    ),
    Fault(
        "T5 from the front of the cache, several queries",
        "oracle",
        "candle#899",
        in_attention(t5_without_offset, t5, queries=2, causal=True, sizes=(2, 5, 40)),
    ),
    Fault(
        "the shift of Transformer-XL in both directions",
        "oracle",
        "transformer-xl _rel_shift",
        shift_in_both_directions,
    ),
    Fault(
        "FIRE divides by the smaller of the two",
        "oracle",
        "BiPE's FIRE",
        in_attention(fire_smaller_not_larger, fire, causal=True, sizes=(2, 9, 40)),
    ),
    Fault(
        "CoPE's gates of the future are open", "oracle", "x-transformers 0c6266e", cope_masked_after_the_gate
    ),
    Fault(
        "KERPLE's distance in the dtype of the activations",
        "oracle",
        "KERPLE's released code",
        lambda dtype: oracle(kerple_distance_in_half_precision, kerple, lambda n: (n,), sizes=(5, 700)),
    ),
]
