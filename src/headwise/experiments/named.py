"""Encodings by the name a command line gives them."""

from __future__ import annotations

import torch

from headwise.core import HeadwiseError
from headwise.layers import ALiBi, Integers, Learned, NoPosition, PositionalEncoding, Rotary, Sinusoidal

NAMES = ("none", "integers", "learned", "sinusoidal", "rotary", "alibi")


def named_position(
    name: str, *, model_dim: int, heads: int, max_length: int, seed: int = 1
) -> PositionalEncoding:
    """The encoding of that name, at the sizes it needs.

    A learned table is not trained here, so it is drawn from a normal distribution of deviation 1 by ``seed``.
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
            with torch.random.fork_rng(devices=[]):  # its first table would use up the caller's numbers
                learned = Learned(max_length, model_dim)
            table = torch.randn(max_length, model_dim, generator=torch.Generator().manual_seed(seed))
            learned.table.data.copy_(table)
            return learned
        case "sinusoidal":
            return Sinusoidal()
        case "rotary":
            return Rotary()
        case "alibi":
            return ALiBi(heads)
    raise HeadwiseError(
        who="position",
        what="the encoding",
        expected=f"one of {', '.join(NAMES)}",
        got=repr(name),
        why="There is none of that name",
        do="Choose one of these",
    )
