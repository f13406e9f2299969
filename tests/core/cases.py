"""Masks, each beside the oracle's rule for it, and random queries, keys and values."""

import math

import torch

from headwise import reference
from headwise.core import Causal, Documents, Explicit, Padding, Prefix, SlidingWindow
from tests import oracle

BATCH = 2
SHAPES = [(6, 6), (2, 6), (1, 6), (9, 4), (1, 1), (7, 1)]  # queries, keys

# name: (queries, keys) -> the mask, and the oracle's rule for each row of the batch
MASKS = {
    "causal": lambda queries, keys: (Causal(), [oracle.sees_causal] * BATCH),
    "window 1": lambda queries, keys: (SlidingWindow(1), [oracle.sees_window(1)] * BATCH),
    "window 3": lambda queries, keys: (SlidingWindow(3), [oracle.sees_window(3)] * BATCH),
    "window 99": lambda queries, keys: (SlidingWindow(99), [oracle.sees_window(99)] * BATCH),
    "window 2 + 2": lambda queries, keys: (SlidingWindow(2, 2), [oracle.sees_window(2, 2)] * BATCH),
    "prefix 2": lambda queries, keys: (Prefix(2), [oracle.sees_prefix(2)] * BATCH),
    "prefix 99": lambda queries, keys: (Prefix(99), [oracle.sees_prefix(99)] * BATCH),
    "padding": lambda queries, keys: padding(keys),
    "right padding": lambda queries, keys: right_padding(keys),
    "documents": lambda queries, keys: documents(keys),
    "explicit": lambda queries, keys: explicit(queries, keys, heads=None),
    "explicit, per head": lambda queries, keys: explicit(queries, keys, heads=1),
    "causal & padding": lambda queries, keys: both("causal", "padding", queries, keys),
    "padding & window 3": lambda queries, keys: both("padding", "window 3", queries, keys),
    "padding & right padding": lambda queries, keys: both("padding", "right padding", queries, keys),
    "documents & causal": lambda queries, keys: both("documents", "causal", queries, keys),
    "prefix 2 & window 3": lambda queries, keys: both("prefix 2", "window 3", queries, keys),
    "causal & window 2 + 2": lambda queries, keys: both("causal", "window 2 + 2", queries, keys),
    "explicit & prefix 2": lambda queries, keys: both("explicit", "prefix 2", queries, keys),
}


def padding(keys):
    """The first row is padded on the left; the second is all padding where it has one key only."""
    keep = [[j >= keys // 2 for j in range(keys)], [j % 3 != 0 for j in range(keys)]]
    return Padding(torch.tensor(keep)), [oracle.sees_padding(row) for row in keep]


def right_padding(keys):
    keep = [[j <= keys // 2 for j in range(keys)], [j < keys - 1 for j in range(keys)]]
    return Padding(torch.tensor(keep)), [oracle.sees_padding(row) for row in keep]


def documents(keys):
    ids = [[j // 3 for j in range(keys)], [7 if j % 2 else 5 for j in range(keys)]]
    return Documents(torch.tensor(ids)), [oracle.sees_documents(row) for row in ids]


def explicit(queries, keys, heads):
    pairs = torch.rand(queries, keys, generator=torch.Generator().manual_seed(3)) < 0.5
    listed = pairs.tolist()

    def sees(i, j):
        return listed[i - (keys - queries)][j]

    return Explicit(pairs if heads is None else pairs.expand(1, heads, -1, -1)), [sees] * BATCH


def both(one, other, queries, keys):
    first, rules = MASKS[one](queries, keys)
    second, more_rules = MASKS[other](queries, keys)
    return first & second, [oracle.sees_both(*pair) for pair in zip(rules, more_rules, strict=True)]


def make_mask(name, queries, keys):
    """The mask of that name, and what the oracle lets each row of the batch see: [batch, query, key]."""
    mask, rules = MASKS[name](queries, keys)
    return mask, torch.tensor([oracle.visible(queries, keys, rule) for rule in rules])


def dense(mask, queries, keys):
    """The mask's own answer for all queries and keys, as [batch, query, key]."""
    visible = mask.visible(torch.arange(keys - queries, keys), torch.arange(keys))
    visible = visible[:, 0] if visible.dim() == 4 else visible
    return visible.expand(BATCH, queries, keys)


def draw(queries, keys, *, heads=4, kv_heads=2, head_dim=6, value_dim=None, dtype=torch.float64):
    """q, k, v from a normal distribution."""
    value_dim = head_dim if value_dim is None else value_dim
    generator = torch.Generator().manual_seed(queries + 10 * keys)
    shapes = [(heads, queries, head_dim), (kv_heads, keys, head_dim), (kv_heads, keys, value_dim)]
    return tuple(torch.randn(BATCH, *shape, generator=generator, dtype=dtype) for shape in shapes)


def expected(q, k, v, *, visible=None, bias=None, scale=None, softcap=None, sinks=None):
    """Attention by `reference.py`, one row of the batch and one head at a time, in float64."""
    sinks = [-math.inf] * q.shape[1] if sinks is None else sinks.detach().double().tolist()
    batch, heads, queries, _ = q.shape
    group = heads // k.shape[1]
    bias = torch.zeros(1, 1, queries, k.shape[2]) if bias is None else bias
    bias = bias.double().expand(batch, heads, -1, -1)
    output = torch.empty(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    for row in range(batch):
        for head in range(heads):
            serving = head // group
            output[row, head] = torch.from_numpy(
                reference.attention(
                    q[row, head].double().numpy(),
                    k[row, serving].double().numpy(),
                    v[row, serving].double().numpy(),
                    visible=None if visible is None else visible[row].numpy(),
                    bias=bias[row, head].numpy(),
                    scale=scale,
                    softcap=softcap,
                    sink=sinks[head],
                )
            )
    return output
