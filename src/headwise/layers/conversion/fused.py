"""Queries, keys and values stored as one matrix: the two orders of its rows, and probing which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive

Order = Literal["parts", "groups"]


def split_qkv(
    fused: Tensor, heads: int, kv_heads: int | None = None, *, order: Order = "parts"
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of queries, of keys and of values, from the weight or the bias of a fused projection.

    Shapes don't tell the order::

        parts    q of all heads | k of all heads | v of all heads       GPT-2, Phi-3, Falcon with one kv head
        groups   for each kv head: its queries, its key, its value      GPT-NeoX, BLOOM, Falcon

    ``kv_heads`` is ``heads`` unless given. Outputs come first, as in ``nn.Linear``: GPT-2 stores them last,
    so transpose its weights before. Raises HeadwiseError if the rows do not divide.

    >>> rows = torch.arange(6)
    >>> [part.tolist() for part in split_qkv(rows, heads=2)]
    [[0, 1], [2, 3], [4, 5]]
    >>> [part.tolist() for part in split_qkv(rows, heads=2, order="groups")]
    [[0, 3], [1, 4], [2, 5]]
    """
    heads, kv_heads, width = _sizes(fused, heads, kv_heads, who="split_qkv")
    _check_order(order, who="split_qkv")
    if order == "parts":
        first, second = heads * width, (heads + kv_heads) * width
        return fused[:first], fused[first:second], fused[second:]
    groups = fused.reshape(kv_heads, heads // kv_heads + 2, width, *fused.shape[1:])
    return groups[:, :-2].flatten(0, 2), groups[:, -2].flatten(0, 1), groups[:, -1].flatten(0, 1)


def fuse_qkv(
    q: Tensor, k: Tensor, v: Tensor, heads: int, kv_heads: int | None = None, *, order: Order = "parts"
) -> Tensor:
    """The inverse of `split_qkv`.

    >>> fuse_qkv(torch.tensor([0, 3]), torch.tensor([1, 4]), torch.tensor([2, 5]), 2, order="groups")
    tensor([0, 1, 2, 3, 4, 5])
    """
    _check_order(order, who="fuse_qkv")
    joined = torch.cat((q, k, v))
    heads, kv_heads, width = _sizes(joined, heads, kv_heads, who="fuse_qkv")
    if order == "parts":
        return joined
    groups = [part.reshape(kv_heads, -1, width, *part.shape[1:]) for part in (q, k, v)]
    return torch.cat(groups, dim=1).flatten(0, 2)


def qkv_order(
    split: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], heads: int, kv_heads: int, head_dim: int
) -> Order:
    """The order that some code reads, found by giving it the numbers of the rows.

    ``split`` takes the projection's output ``[1, 1, rows]`` and gives q, k and v in any shape with heads
    before head_dim. Raises HeadwiseError if it is neither order.

    >>> theirs = lambda x: x.view(2, 3, 4).unbind(1)  # GPT-NeoX: for each head its q, k and v
    >>> qkv_order(theirs, heads=2, kv_heads=2, head_dim=4)
    'groups'
    """
    rows = torch.arange(float((heads + 2 * kv_heads) * head_dim))
    read = [part.flatten() for part in split(rows[None, None])]
    orders: tuple[Order, ...] = ("parts", "groups")
    for order in orders:
        if all(map(torch.equal, read, split_qkv(rows, heads, kv_heads, order=order))):
            return order
    raise HeadwiseError(
        who="qkv_order",
        what="what split gives",
        expected=f"the rows of {heads} query and {kv_heads} key/value heads in order 'parts' or 'groups'",
        got="other rows",
        why="No other order is known",
        do="Check heads, kv_heads and head_dim, and that split keeps heads before head_dim",
    )


def _sizes(fused: Tensor, heads: int, kv_heads: int | None, *, who: str) -> tuple[int, int, int]:
    kv_heads = heads if kv_heads is None else kv_heads
    for what, size in (("heads", heads), ("kv_heads", kv_heads)):
        check_positive(size, who=who, what=what)
    rows, parts = fused.shape[0] if fused.dim() else 0, heads + 2 * kv_heads
    if heads % kv_heads or not rows or rows % parts:
        raise HeadwiseError(
            who=who,
            what="the rows",
            expected=f"a multiple of {heads} + 2 * {kv_heads}, the heads of queries, keys and values",
            got=str(rows),
            why="Each head has as many rows as it is wide",
            do="Check heads and kv_heads, which must divide heads, and transpose weights with outputs last",
        )
    return heads, kv_heads, rows // parts


def _check_order(order: object, *, who: str) -> None:
    if order in ("parts", "groups"):
        return
    raise HeadwiseError(
        who=who,
        what="order",
        expected="'parts' or 'groups'",
        got=repr(order),
        why="Shapes do not tell it",
        do="Use qkv_order to find the one that some code reads",
    )
