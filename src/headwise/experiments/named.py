"""Encodings by the name a command line gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from headwise.core import HeadwiseError
from headwise.layers import (
    ALiBi,
    Fire,
    Integers,
    KerpleLog,
    KerplePower,
    Learned,
    NoPosition,
    PositionalEncoding,
    Rotary,
    Sandwich,
    Sinusoidal,
    T5Bias,
)

Encoding = TypeVar("Encoding", bound=PositionalEncoding)

NAMES = ("none", "integers", "learned", "sinusoidal", "rotary", "alibi")
BY_DISTANCE = (
    "t5",
    "kerple-log",
    "kerple-power",
    "fire",
    "sandwich",
)  # others that add to scores by distance


def named_position(
    name: str, *, model_dim: int, heads: int, max_length: int, seed: int = 1
) -> PositionalEncoding:
    """The encoding of that name, at the sizes it needs.

    Nothing is trained here: what is learned is drawn by ``seed``, a table from a normal distribution of
    deviation 1, the rest as it starts.
    Raises HeadwiseError for an unknown name.

    >>> named_position("rotary", model_dim=8, heads=1, max_length=3)
    Rotary(base=10000, pairs='halves')
    """
    match name:
        case "none":
            return NoPosition()
        case "integers":
            return Integers()
        case "learned":
            learned = _drawn(seed, lambda: Learned(max_length, model_dim))
            table = torch.randn(max_length, model_dim, generator=torch.Generator().manual_seed(seed))
            learned.table.data.copy_(table)
            return learned
        case "sinusoidal":
            return Sinusoidal()
        case "rotary":
            return Rotary()
        case "alibi":
            return ALiBi(heads)
        case "t5":
            return _drawn(seed, lambda: T5Bias(heads, std=1.0))
        case "kerple-log":
            return _drawn(seed, lambda: KerpleLog(heads))
        case "kerple-power":
            return _drawn(seed, lambda: KerplePower(heads))
        case "fire":
            return _drawn(seed, lambda: Fire(heads))
        case "sandwich":
            return Sandwich(heads)
    raise HeadwiseError(
        who="position",
        what="the encoding",
        expected=f"one of {', '.join((*NAMES, *BY_DISTANCE))}",
        got=repr(name),
        why="There is none of that name",
        do="Choose one of these",
    )


def _drawn(seed: int, make: Callable[[], Encoding]) -> Encoding:
    with torch.random.fork_rng(devices=[]):  # or its first numbers would use up the caller's
        torch.manual_seed(seed)
        return make()
