"""What the readings of an attention map take, checked with messages that say what to do."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import described, is_one_of

_DENSE_LIMIT = 2**30  # bytes
_INTEGERS = (torch.int64, torch.int32)


def check_batched(values: Tensor, shape: tuple[int, int, int], *, what: str) -> None:
    """Refuse anything but ``[batch heads length columns]``; batch and heads may be 1.

    >>> check_batched(torch.zeros(2, 1, 5, 3), (2, 8, 5), what="values")
    """
    batch, heads, length = shape
    four = isinstance(values, Tensor) and values.dim() == 4 and values.is_floating_point()
    shared = four and is_one_of(values.shape[0], 1, batch) and is_one_of(values.shape[1], 1, heads)
    if shared and values.shape[2] == length:
        return
    raise HeadwiseError(
        who="AttentionMap",
        what=what,
        expected=f"floating-point [{batch}, {heads}, {length}, columns], where batch and heads may be 1",
        got=described(values),
        why="There is one row for each token on that side of the map",
        do="Give it four axes, values[None, None] for one matrix",
    )


def check_indices(indices: Tensor, length: int, *, what: str) -> None:
    """Refuse anything but a list of places from 0 to ``length - 1`` as an integer tensor.

    >>> check_indices(torch.tensor([0, 4]), 5, what="queries")
    """
    got = described(indices)
    if isinstance(indices, Tensor) and indices.dim() == 1 and indices.dtype in _INTEGERS:
        if not len(indices):
            return
        low, high = int(indices.min()), int(indices.max())
        if low >= 0 and high < length:
            return
        got = f"{low} to {high}"
    raise HeadwiseError(
        who="AttentionMap",
        what=what,
        expected=f"a one-axis tensor of integers from 0 to {length - 1}",
        got=got,
        why=f"The map has {length} of them",
        do="Count from 0, and from the first query or key of this call",
    )


def check_same_length(queries: Tensor, keys: Tensor) -> None:
    """Refuse pairs that are not pairs.

    >>> check_same_length(torch.arange(3), torch.arange(3))
    """
    if len(queries) != len(keys):
        raise HeadwiseError(
            who="AttentionMap.entries",
            what="keys",
            expected=f"as many as queries, {len(queries)}",
            got=str(len(keys)),
            why="Each entry is named by one of each",
            do="Use tile or rows for a rectangle",
        )


def check_dense(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    """Refuse to build a matrix of more than 1 GiB.

    >>> check_dense((1, 8, 2048, 2048), torch.float32)
    """
    size = math.prod(shape) * dtype.itemsize
    if size > _DENSE_LIMIT:
        raise HeadwiseError(
            who="AttentionMap",
            what="a dense matrix",
            expected=f"at most {_DENSE_LIMIT / 2**30:g} GiB",
            got=f"{list(shape)}, which takes {size / 2**30:,.1f} GiB in {str(dtype).removeprefix('torch.')}",
            why="The map is lazy so that this need not be built",
            do="Read rows, tile, pool, entropy or received instead",
        )


def check_keep(keep: object, *, batch: int, queries: int) -> None:
    """Refuse anything but None or a mark for each query of each row of the batch.

    >>> check_keep(torch.ones(2, 5, dtype=torch.bool), batch=2, queries=5)
    """
    if keep is None:
        return
    if isinstance(keep, Tensor) and keep.dtype == torch.bool and tuple(keep.shape) == (batch, queries):
        return
    raise HeadwiseError(
        who="AttentionMap.statistics",
        what="keep",
        expected=f"bool of shape [{batch}, {queries}]",
        got=described(keep),
        why="It says which queries count",
        do="Pass tokens != pad_id, cut to the queries",
    )


def check_classes(classes: Tensor, keys: int) -> None:
    """Refuse anything but one row of marks for each class of keys.

    >>> check_classes(torch.ones(2, 5, dtype=torch.bool), 5)
    """
    fits = isinstance(classes, Tensor) and classes.dim() == 2 and classes.shape[1] == keys
    if fits and classes.dtype == torch.bool:
        return
    raise HeadwiseError(
        who="AttentionMap.mass",
        what="classes",
        expected=f"a boolean tensor [classes, {keys}], a row for each class",
        got=described(classes),
        why="Each key is in a class or not",
        do="Stack one boolean row for each class, such as tokens == cls_id",
    )


def check_values(v: Tensor, output_weight: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Refuse values and an output layer that do not belong to the map's heads.

    >>> check_values(torch.zeros(1, 2, 5, 4), torch.zeros(32, 32), (1, 8, 2, 5))
    """
    batch, heads, kv_heads, keys = shape
    fits = isinstance(v, Tensor) and v.dim() == 4 and tuple(v.shape[:3]) == (batch, kv_heads, keys)
    matrix = isinstance(output_weight, Tensor) and output_weight.dim() == 2
    if fits and matrix and output_weight.shape[1] == heads * v.shape[3]:
        return
    raise HeadwiseError(
        who="AttentionMap.value_weighted",
        what="v and output_weight",
        expected=f"[{batch}, {kv_heads}, {keys}, value_dim] and [model_dim, {heads} * value_dim]",
        got=f"{described(v)} and {described(output_weight)}",
        why="Each head's values go through its own columns of the output layer",
        do="Pass the call's values and the weight of the layer that mixes the heads",
    )
