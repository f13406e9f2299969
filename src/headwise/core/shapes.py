"""Checks of shapes and dtypes, done once, where the value is used."""

import torch
from torch import Tensor

from headwise.core.errors import HeadwiseError


def described(x: object) -> str:
    """What a value is, in the words error messages use.

    >>> described(torch.zeros(2, 5)), described(None)
    ('float32 of shape [2, 5]', 'None')
    """
    if isinstance(x, Tensor):
        return f"{str(x.dtype).removeprefix('torch.')} of shape {list(x.shape)}"
    return repr(x)


def is_one_of(size: int | tuple[int, ...], *others: int | tuple[int, ...]) -> bool:
    """Whether a size, or a whole shape, is among others, in compiled code too.

    >>> is_one_of(torch.zeros(2, 5).shape, (5,), (2, 5)), is_one_of(3, 1, 2)
    (True, False)
    """
    # one by one: compiled code finds no number `in` a tuple of sizes that may vary
    return any(size == other for other in others)


def check_floating(x: object, axes: str, *, who: str, what: str, do: str) -> None:
    """Refuse anything but a floating-point tensor with one axis per word of ``axes``.

    >>> check_floating(torch.zeros(2, 5, 8), "batch query model_dim", who="layer", what="x", do="Embed first")
    """
    if isinstance(x, Tensor) and x.is_floating_point() and x.dim() == len(axes.split()):
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"a floating-point tensor [{axes}]",
        got=described(x),
        why="Each axis has one meaning, so none is guessed",
        do=do,
    )


def check_bias(bias: object, shape: tuple[int, ...], *, what: str) -> None:
    """Refuse anything but numbers to add to scores ``[batch heads query key]``; batch and heads may be 1.

    >>> check_bias(torch.zeros(1, 1, 3, 5), (2, 8, 3, 5), what="bias")
    """
    if isinstance(bias, Tensor) and bias.is_floating_point() and bias.dim() == 4:
        shared = is_one_of(bias.shape[0], 1, shape[0]) and is_one_of(bias.shape[1], 1, shape[1])
        if shared and tuple(bias.shape[2:]) == shape[2:]:
            return
    raise HeadwiseError(
        who="attention",
        what=what,
        expected=f"floating-point of shape {list(shape)}, where batch and heads may be 1",
        got=described(bias),
        why="It is added to the score of each query and key",
        do="Give it four axes, bias[None, None] for one matrix; a boolean goes to mask=Explicit(visible)",
    )


def check_value_bias(gained: object, shape: tuple[int, ...]) -> None:
    """Refuse anything but one vector of the values' width for each query of each head.

    >>> check_value_bias(torch.zeros(2, 8, 3, 5), (2, 8, 3, 5))
    """
    if isinstance(gained, Tensor) and gained.is_floating_point() and tuple(gained.shape) == shape:
        return
    raise HeadwiseError(
        who="attention",
        what="what the value_bias function returns",
        expected=f"floating-point of shape {list(shape)}",
        got=described(gained),
        why="It is added to the output of a block of queries",
        do="Return sum_j weights[i, j] * a[i, j], one vector as wide as a value for each query of each head",
    )


def check_positions(
    positions: object, *, length: int, batch: int, who: str, what: str = "positions", axes: int = 1
) -> None:
    """Refuse positions that are not integers of shape ``[length]`` or ``[batch length]``.

    With several axes, such as rows and columns, they are ``[length axes]`` or ``[batch length axes]``.

    >>> check_positions(torch.arange(5), length=5, batch=2, who="layer")
    >>> check_positions(torch.zeros(5, 2).long(), length=5, batch=2, who="layer", axes=2)
    """
    last = () if axes == 1 else (axes,)
    shapes = ((length, *last), (batch, length, *last), (1, length, *last))
    if isinstance(positions, Tensor) and is_one_of(positions.shape, *shapes):
        if positions.dtype in (torch.int64, torch.int32):
            return
        raise HeadwiseError(
            who=who,
            what=what,
            expected="int64 or int32",
            got=described(positions),
            why="Small integers wrap around, and in half precision 256 and 257 are the same number",
            do="Pass positions.long()",
        )
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"integers of shape {list(shapes[0])} or {list(shapes[1])}",
        got=described(positions),
        why="There is one position for each token" + (f", on each of {axes} axes" if last else ""),
        do="Stack the positions on each axis along the last dimension"
        if last
        else f"Pass torch.arange({length}), or one row of positions for each row of the batch",
    )


def check_positive(value: object, *, who: str, what: str) -> None:
    """Refuse anything but a whole number of at least one.

    >>> check_positive(8, who="MultiHeadAttention", what="heads")
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected="a whole number of at least 1",
        got=repr(value),
        why="It counts things",
        do="Use 1 or more",
    )
