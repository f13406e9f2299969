"""Attention maps of every kind beside the dense computation, and every reading of both."""

from __future__ import annotations

from itertools import pairwise

import torch

from tests import oracle
from tests.core.cases import BATCH, MASKS, draw, make_mask

HEADS, KV_HEADS = 4, 2
SLOPES = torch.tensor([0.5, 0.25, 0.1, 0.0])[None, :, None, None]


def alibi(queries, keys):
    """A penalty for each token of distance, as a function of slots."""

    def bias(q, k, rows, columns, visible):
        slots = torch.arange(keys - queries, keys)[rows][:, None]
        return (
            -SLOPES.to(torch.promote_types(q.dtype, torch.float32))
            * (slots - torch.arange(keys)[columns]).abs()
        )

    return bias


def by_content(q, k, rows, columns, visible):
    """A bias that only the queries and keys themselves tell."""
    q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
    return torch.sin(q[..., :, None, 0] + k.repeat_interleave(q.shape[1] // k.shape[1], 1)[..., None, :, 1])


def tensor_bias(queries, keys, dtype):
    """A bias for each head that hides every fifth key by minus infinity."""
    bias = torch.linspace(-1, 1, HEADS * queries * keys, dtype=dtype).view(1, HEADS, queries, keys).clone()
    bias[..., 1::5] = -torch.inf
    return bias


SINKS = torch.tensor([0.0, 3.0, -50.0, -torch.inf])


def sinks_of_queries(queries, dtype):
    """A sink for each row of the batch and each query, of which some are without one."""
    sinks = torch.linspace(-4, 4, BATCH * HEADS * queries, dtype=dtype).view(BATCH, HEADS, queries).clone()
    sinks[:, 1, ::2] = -torch.inf
    return sinks


# name: (queries, keys, dtype) -> the arguments of the map
KINDS = {
    "nothing": lambda queries, keys, dtype: {},
    "scale": lambda queries, keys, dtype: {"scale": -0.3},
    "tensor bias": lambda queries, keys, dtype: {"bias": tensor_bias(queries, keys, dtype)},
    "alibi": lambda queries, keys, dtype: {"bias": alibi(queries, keys)},
    "content": lambda queries, keys, dtype: {"bias": by_content},
    "softcap": lambda queries, keys, dtype: {"softcap": 1.5},
    "sinks": lambda queries, keys, dtype: {"sinks": SINKS.to(dtype)},
    "sinks of queries": lambda queries, keys, dtype: {"sinks": sinks_of_queries(queries, dtype)},
    "all": lambda queries, keys, dtype: {
        "bias": alibi(queries, keys), "softcap": 3.0, "sinks": SINKS.to(dtype), "scale": 0.7
    },
}  # fmt: skip


def make(kind, mask_name, queries, keys, dtype=torch.float64):
    """Queries, keys, the map's arguments, and what the oracle's rules let each row of the batch see."""
    q, k, _ = draw(queries, keys, heads=HEADS, kv_heads=KV_HEADS, dtype=dtype)
    mask, visible = (None, None) if mask_name is None else make_mask(mask_name, queries, keys)
    return q, k, {"mask": mask, **KINDS[kind](queries, keys, dtype)}, visible


def parts(q, k, kwargs):
    """Wide q and k with a kv head for each head, the scale, and the bias as one tensor, all in float64."""
    q, k = q.double(), k.double()
    queries, keys = q.shape[2], k.shape[2]
    bias = kwargs.get("bias", torch.zeros(1, 1, 1, 1))
    if callable(bias):
        bias = bias(q, k, slice(0, queries), slice(0, keys), None)
    scale = kwargs.get("scale", q.shape[-1] ** -0.5)
    bias = bias.double().expand(*q.shape[:2], queries, keys)
    return q, k.repeat_interleave(q.shape[1] // k.shape[1], dim=1), scale, bias


def dense(q, k, kwargs, visible):
    """Weights and log normalizers in float64, by the formula."""
    q, k, scale, bias = parts(q, k, kwargs)
    scores = scale * (q @ k.mT)
    if "softcap" in kwargs:
        scores = kwargs["softcap"] * torch.tanh(scores / kwargs["softcap"])
    scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], -torch.inf)
    sinks = kwargs.get("sinks", torch.full((q.shape[1],), -torch.inf)).double()
    sinks = (sinks[None, :, None] if sinks.dim() == 1 else sinks)[..., None].expand(*scores.shape[:3], 1)
    with_sink = torch.cat([scores, sinks], dim=-1)
    normalizer = with_sink.logsumexp(-1)
    return with_sink.softmax(-1).nan_to_num(0.0)[..., :-1], normalizer, scores


def by_loops(q, k, kwargs, visible):
    """The weights by the oracle's loops; a sink is one more key whose score is its logit."""
    q, k, scale, bias = parts(q, k, kwargs)
    weights = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for row in range(BATCH):
        for head in range(q.shape[1]):
            sees = None if visible is None else visible[row].tolist()
            how = {"visible": sees, "bias": bias[row, head].tolist(), "scale": scale}
            how["softcap"] = kwargs.get("softcap")
            found = oracle.attention_weights(q[row, head].tolist(), k[row, head].tolist(), **how)
            weights[row, head] = torch.tensor(found, dtype=torch.float64)
    return weights


ALL_MASKS = [None, *MASKS]
SOME_MASKS = [None, "causal", "padding & window 3", "explicit, per head"]
KINDS_AND_MASKS = [
    *((kind, mask) for kind in ("all", "sinks") for mask in ALL_MASKS),  # with a bias, and without
    *((kind, mask) for kind in KINDS if kind not in ("all", "sinks") for mask in SOME_MASKS),
]


def distances(weights):
    """``|i - j|`` for every query and key of a dense map, and its edges in doubling bins."""
    queries, keys = weights.shape[2:]
    away = (torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)).abs().double()
    edges, largest = [0, 1], max(queries, keys) - 1
    while edges[-1] <= largest:
        edges.append(2 * edges[-1])
    return away, edges


def diagonal(weights, offset):
    """What each query gives to the key at that offset from its own place, where there is one."""
    return weights.diagonal(weights.shape[3] - weights.shape[2] + offset, -2, -1)


def on(weights, offset):
    """The same with 0 for a query that has none."""
    queries, keys = weights.shape[2:]
    found, there = torch.zeros(weights.shape[:3], dtype=weights.dtype), diagonal(weights, offset)
    first = max(0, queries - keys - offset)
    found[:, :, first : first + there.shape[-1]] = there
    return found


def pooled(weights, bins):
    """Average over the queries of each bin, total over the keys of each."""
    rows = _bins(weights.shape[2], bins)
    columns = _bins(weights.shape[3], bins)
    return torch.stack(
        [torch.stack([weights[:, :, r][..., c].sum(-1).mean(-1) for c in columns], -1) for r in rows], -2
    )


def _bins(length, bins):
    bins = min(bins, length)
    return [[place for place in range(length) if place * bins // length == number] for number in range(bins)]


def moments(weights):
    """Mean distance, its variance, and the average query's mass in each range of distances."""
    away, edges = distances(weights)
    total = weights.sum(-1)
    total = total.where(total > 0, 1.0)
    mean = (weights * away).sum(-1) / total
    variance = (weights * (away - mean[..., None]).square()).sum(-1) / total
    ranges = [(away >= low) & (away < high) for low, high in pairwise(edges)]
    return mean, variance, torch.stack([(weights * inside).sum(-1).mean(-1) for inside in ranges], -1)
