"""What attention takes, checked once, with messages that say what to do."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.masks import Mask
from headwise.core.masks.mask import check_mask
from headwise.core.shapes import check_bias, check_floating, described

_EXAMPLE = "Split heads first: x.unflatten(-1, (heads, head_dim)).transpose(1, 2)"


def check_inputs(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None,
    bias: object,
    softcap: float | None,
    dropout: float,
    scale: float | None = None,
) -> None:
    """Refuse queries, keys, values and options that do not fit each other.

    >>> x = torch.zeros(1, 2, 3, 4)
    >>> check_inputs(x, x, x, mask=None, bias=None, softcap=None, dropout=0.0)
    """
    check_scale(scale, who="attention")
    check_floating(q, "batch heads query head_dim", who="attention", what="q", do=_EXAMPLE)
    check_floating(k, "batch kv_heads key head_dim", who="attention", what="k", do=_EXAMPLE)
    check_floating(v, "batch kv_heads key value_dim", who="attention", what="v", do=_EXAMPLE)
    batch, heads, queries, head_dim = q.shape
    kv_heads, keys = k.shape[1:3]
    if k.shape[0] != batch or k.shape[-1] != head_dim or k.dtype != q.dtype:
        raise HeadwiseError(
            who="attention",
            what="k",
            expected=f"{described(q).split(' ')[0]} [{batch}, kv_heads, key, {head_dim}]",
            got=described(k),
            why=f"q is {described(q)}, and a score is the dot product of a query and a key of the same row",
            do="Project queries and keys to one head_dim and one dtype",
        )
    if v.shape[:3] != k.shape[:3] or v.dtype != q.dtype:
        raise HeadwiseError(
            who="attention",
            what="v",
            expected=f"{described(q).split(' ')[0]} [{batch}, {kv_heads}, {keys}, value_dim]",
            got=described(v),
            why="Each key carries one value",
            do="Make keys and values from the same tokens",
        )
    if heads % kv_heads:
        raise HeadwiseError(
            who="attention",
            what="the number of query heads",
            expected=f"a multiple of the {kv_heads} key/value heads",
            got=str(heads),
            why="Each key/value head serves the same number of query heads",
            do="Choose kv_heads that divides heads",
        )
    check_dropout(dropout, who="attention")
    check_softcap(softcap, who="attention")
    if mask is not None:
        check_mask(mask, who="attention")
        mask.check(batch=batch, heads=heads, queries=queries, keys=keys)
    if isinstance(bias, Tensor):
        check_bias(bias, (batch, heads, queries, keys), what="bias")


def check_dropout(dropout: object, *, who: str) -> None:
    """Refuse anything but a rate from 0 to below 1.

    >>> check_dropout(0.1, who="attention")
    """
    if isinstance(dropout, (int, float)) and 0 <= dropout < 1:
        return
    raise HeadwiseError(
        who=who,
        what="dropout",
        expected="a rate of at least 0 and below 1",
        got=repr(dropout),
        why="It is the share of weights set to zero",
        do="Pass 0.1 for ten percent",
    )


def check_softcap(softcap: float | None, *, who: str) -> None:
    """Refuse anything but None or a finite number above 0.

    >>> check_softcap(50.0, who="attention")
    """
    if softcap is None or (is_finite_number(softcap) and softcap > 0):
        return
    raise HeadwiseError(
        who=who,
        what="softcap",
        expected="a number above 0, or None",
        got=repr(softcap),
        why="Scores are divided by it",
        do="Leave it out for none",
    )


def check_scale(scale: object, *, who: str) -> None:
    """Refuse anything but None or a finite number.

    >>> check_scale(0.125, who="attention")
    """
    if scale is None or is_finite_number(scale):
        return
    raise HeadwiseError(
        who=who,
        what="scale",
        expected="a finite number, or None for 1 / sqrt(head_dim)",
        got=repr(scale),
        why="Every score is multiplied by it",
        do="Leave it out, or pass 1.0 for T5, query_pre_attn_scalar**-0.5 for Gemma 2",
    )


def is_finite_number(x: object) -> bool:
    """Whether it is one real number, and neither NaN nor infinite.

    >>> is_finite_number(0.5), is_finite_number(True), is_finite_number(float("inf"))
    (True, False, False)
    """
    if torch.compiler.is_compiling():  # there a number may be a symbol, and a comparison a guard
        return True
    return not isinstance(x, bool) and isinstance(x, Real) and math.isfinite(x)
