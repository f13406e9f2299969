"""Attention functions of q, k, v and a mask without a fault: every property that applies must hold."""

import math
from functools import partial

import torch
from torch import nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import eager_attention_forward

from headwise.check import empty_rows, kv_order, oracle, paths, polarity, scale
from headwise.core import Explicit, attention
from tests.faults import formulas as right
from tests.faults.fault import Sound
from tests.faults.inputs import heads
from tests.faults.peers import x_transformers


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
    count, width = q.shape[1], q.shape[1] * q.shape[-1]
    one = torch.eye(width, dtype=q.dtype)
    q, k, v = (x.permute(2, 0, 1, 3).flatten(-2) for x in (q, k, v))
    if mask is not None:
        mask = mask.expand(q.shape[1], count, -1, -1).flatten(0, 1)
    output, _ = multi_head_attention_forward(
        q, k, v, width, count, torch.cat((one, one, one)), None, None, None, False, 0.0, one, None, False,
        attn_mask=mask, need_weights=False,
    )  # fmt: skip
    return output.unflatten(-1, (count, -1)).permute(1, 2, 0, 3)


def x_transformers_attend(flash):
    attend = x_transformers.Attend(flash=flash, causal=False, heads=2)
    return lambda q, k, v, mask: attend(q, k, v, mask=mask)[0]


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
        lambda dtype: of_attention(torch_function, dtype, grouped=False, true_means="hidden"),
    ),
    Sound("x-transformers Attend", x_transformers_paths),
]
