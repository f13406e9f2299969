"""Pairs of dimensions, and turning them: the two layouts in use."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.errors import HeadwiseError

Pairs = Literal["halves", "neighbours"]


def turn_pairs(
    x: Float[Tensor, "batch heads length head_dim"],
    cosine: Float[Tensor, "*batch length pairs"],
    sine: Float[Tensor, "*batch length pairs"],
    pairs: Pairs,
) -> Float[Tensor, "batch heads length head_dim"]:
    """The first ``2 * pairs`` dimensions of ``x`` turned, the others as they are, in the dtype of ``x``.

    >>> x = torch.tensor([1.0, 0.0, 7.0]).reshape(1, 1, 1, 3)
    >>> turn_pairs(x, torch.zeros(1, 1), torch.ones(1, 1), "halves")[0, 0]
    tensor([[0., 1., 7.]])
    """
    turn = _turn_halves if pairs == "halves" else _turn_neighbours
    dims = 2 * cosine.shape[-1]
    if dims == x.shape[-1]:
        return turn(x.to(cosine.dtype), cosine, sine).to(x.dtype)
    first = x[..., :dims].to(cosine.dtype).contiguous()
    return torch.cat((turn(first, cosine, sine).to(x.dtype), x[..., dims:]), dim=-1)


def check_pairs(pairs: object, *, who: str) -> None:
    """Refuse anything but the name of a layout.

    >>> check_pairs("halves", who="Rotary")
    """
    if pairs in ("halves", "neighbours"):
        return
    raise HeadwiseError(
        who=who,
        what="pairs",
        expected="'halves' or 'neighbours'",
        got=repr(pairs),
        why="Dimension 0 turns with dimension head_dim / 2 or with dimension 1",
        do="Use 'halves' for weights from Hugging Face, 'neighbours' for the paper's layout",
    )


def check_even(dims: int, *, who: str, what: str = "head_dim") -> None:
    """Refuse a number of dimensions that does not split into pairs.

    >>> check_even(64, who="Rotary")
    """
    if dims % 2 == 0:
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected="even",
        got=str(dims),
        why="Dimensions turn in pairs",
        do="Choose model_dim and heads so that model_dim / heads is even, or pass head_dim"
        if what == "head_dim"
        else "Use an even number of dimensions",
    )


def _turn_halves(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    partner = x.roll(x.shape[-1] // 2, dims=-1)  # half as costly in the backward pass as slices of the halves
    turned = x * torch.cat((cosine, cosine), dim=-1)
    return turned.addcmul_(partner, torch.cat((-sine, sine), dim=-1))


def _turn_neighbours(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    turned = _as_complex(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)) * torch.complex(cosine, sine)
    return torch.view_as_real(turned).flatten(-2)


def _as_complex(two: Tensor) -> Tensor:
    """``[..., 2]`` as complex numbers, copied where two numbers do not lie as one complex number would."""
    if torch.compiler.is_compiling() or not _lie_as_complex(two):  # compiled code cannot ask for an offset
        two = two.clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(two)


def _lie_as_complex(two: Tensor) -> bool:
    *strides, within = two.stride()
    return within == 1 and not any(where % 2 for where in (two.storage_offset(), *strides))
