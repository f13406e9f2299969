"""Attention by PyTorch's FlexAttention: a bias and a mask that are said for one score at a time.

On a GPU that is compiled into one kernel, which never writes scores to memory. It has not run on a GPU yet:
the tests run the same functions on a CPU, where PyTorch does it unfused and forward only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, singledispatch
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from headwise.core.blocks import transformed
from headwise.core.masks import All, Causal, Documents, Explicit, Mask, Padding, Prefix, SlidingWindow

# (score, row of the batch, head, query, key) -> score, all of them single numbers
ScoreChange = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
# (row of the batch, head, slot of the query, slot of the key) -> whether it is seen
Seen = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_TILE = 128  # queries and keys that the kernel skips or reads together


def flexible_attention(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    v: Float[Tensor, "batch kv_heads key value_dim"],
    *,
    mask: Mask | None = None,
    score_change: ScoreChange | None = None,
    scale: float | None = None,
) -> Float[Tensor, "batch heads query value_dim"]:
    """``attention`` by FlexAttention, with the same conventions; the bias is said as ``score_change``.

    ``score_change(score, row, head, i, j)`` gives the scaled score of query i and key j with the bias in it.
    Tiles of 128 x 128 that the mask's ``reach`` leaves out are skipped. Dong et al. 2024, arXiv 2412.05496.
    Raises NotImplementedError for a mask that cannot be said for one score at a time (see ``seen_by``).

    >>> from headwise.core import Causal
    >>> q = torch.zeros(1, 1, 3, 16)
    >>> flexible_attention(q, q, torch.eye(3, 16).reshape(1, 1, 3, 16), mask=Causal())[0, 0, :, :3]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    tiles = None if mask is None else tiles_of(mask, q.shape[2], k.shape[2], q.device)
    grouped = q.shape[1] != k.shape[1]
    run: Any = _compiled() if q.is_cuda and not torch.compiler.is_compiling() else flex_attention
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        output: Tensor = run(q, k, v, score_change, tiles, scale, grouped)
    return output


def tiles_of(mask: Mask, queries: int, keys: int, device: torch.device) -> BlockMask:
    """The mask for FlexAttention: which tiles are read, from ``reach``, and what is seen within them.

    Memory is one number for each tile, never one for each score.

    >>> from headwise.core import SlidingWindow
    >>> tiles_of(SlidingWindow(100), 512, 512, torch.device("cpu")).kv_num_blocks
    tensor([[[1, 2, 2, 2]]], dtype=torch.int32)
    """
    seen, first_slot = seen_by(mask), keys - queries
    across = -(-keys // _TILE)
    counts, numbers = [], []
    for start in range(0, queries, _TILE):
        stop = min(start + _TILE, queries)
        first, last = mask.reach(first_slot + start, first_slot + stop - 1, keys)
        read = list(range(first // _TILE, -(-last // _TILE))) if first < last else []
        counts.append(len(read))
        numbers.append(read + [0] * (across - len(read)))

    def integers(x: list[Any]) -> Tensor:
        return torch.tensor(x, dtype=torch.int32, device=device)[None, None]

    return BlockMask.from_kv_blocks(
        integers(counts),
        integers(numbers),
        BLOCK_SIZE=_TILE,
        mask_mod=lambda row, head, query, key: seen(row, head, query + first_slot, key),
        seq_lengths=(queries, keys),
    )


def takes(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether FlexAttention takes tensors such as these, here: it cannot do without any, nor be transformed.

    >>> x = torch.zeros(1, 1, 3, 16)
    >>> takes(x, x, x), takes(x[:, :, :0], x, x), takes(x, x, x[..., :8])
    (True, False, False)
    """
    some = q.shape[2] > 0 and k.shape[2] > 0
    return some and v.shape[-1] == q.shape[-1] >= 16 and q.element_size() <= 4 and not transformed()


def is_flexible(mask: Mask | None, bias: object, score_change: ScoreChange | None, plain: bool) -> bool:
    """Whether FlexAttention can say all of it: the mask, the bias if there is one, and nothing not ``plain``.

    >>> from headwise.core import Causal
    >>> is_flexible(Causal() & Mask(), None, None, plain=True), is_flexible(Causal(), None, None, plain=True)
    (False, True)
    """
    masks = mask.masks if isinstance(mask, All) else () if mask is None else (mask,)
    said = all(seen_by.dispatch(type(one)) is not seen_by.dispatch(Mask) for one in masks)
    return said and plain and (bias is None or score_change is not None)


@singledispatch
def seen_by(mask: Mask) -> Seen:
    """Whether one query sees one key, as a function of their slots: ``visible`` for one score.

    Another mask joins by ``seen_by.register``. Raises NotImplementedError for one that has not.

    >>> from headwise.core import Causal
    >>> seen_by(Causal())(0, 0, torch.tensor(3), torch.tensor(4))
    tensor(False)
    """
    raise NotImplementedError(f"{type(mask).__name__} is not said for one score at a time")


@seen_by.register
def _(mask: Causal) -> Seen:
    return lambda row, head, query, key: key <= query


@seen_by.register
def _(mask: SlidingWindow) -> Seen:
    return lambda row, head, query, key: (query - key < mask.window) & (query - key >= -mask.ahead)


@seen_by.register
def _(mask: Prefix) -> Seen:
    return lambda row, head, query, key: (key <= query) | (key < mask.length)


@seen_by.register
def _(mask: Padding) -> Seen:
    return lambda row, head, query, key: mask.keep[_of(mask.keep, row), key]


@seen_by.register
def _(mask: Documents) -> Seen:
    ids = mask.ids
    return lambda row, head, query, key: (
        (ids[_of(ids, row), query.clamp(min=0)] == ids[_of(ids, row), key]) & (query >= 0)
    )


@seen_by.register
def _(mask: Explicit) -> Seen:
    pairs = mask.pairs if mask.pairs.dim() == 4 else mask.pairs[None, None]
    first_row = pairs.shape[-1] - pairs.shape[-2]
    return lambda row, head, query, key: pairs[
        _of(pairs, row), head if pairs.shape[1] > 1 else 0, query - first_row, key
    ]


@seen_by.register
def _(mask: All) -> Seen:
    every = [seen_by(one) for one in mask.masks]

    def seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        both = every[0](row, head, query, key)
        for one in every[1:]:
            both = both & one(row, head, query, key)
        return both

    return seen


def position_of(positions: Int[Tensor, "*batch length"], row: Tensor, slot: Tensor) -> Int[Tensor, ""]:
    """The position of one token, where rows may share theirs.

    >>> position_of(torch.tensor([[3, 4, 5]]), torch.tensor(1), torch.tensor(2))
    tensor(5)
    """
    return positions[slot] if positions.dim() == 1 else positions[_of(positions, row), slot]


def _of(x: Tensor, row: Tensor) -> Tensor | int:
    return row if x.shape[0] > 1 else 0


@cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(flex_attention)
