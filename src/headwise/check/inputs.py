"""What a thing under test is given: sequences of vectors or of tokens, of any length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor


@runtime_checkable
class Inputs(Protocol):
    """Makes sequences: a tensor ``[batch length ...]`` that the thing under test takes."""

    def make(self, batch: int, length: int, seed: int) -> Tensor: ...

    def replace(self, x: Tensor, where: Bool[Tensor, "batch length"], seed: int) -> Tensor:
        """The same sequences with other content in some places."""
        ...


@dataclass(frozen=True)
class Vectors:
    """Random normal vectors ``[batch length width]``.

    >>> Vectors(8).make(batch=2, length=3, seed=0).shape
    torch.Size([2, 3, 8])
    """

    width: int
    dtype: torch.dtype = torch.float32
    regroups: int = 0

    def make(self, batch: int, length: int, seed: int) -> Tensor:
        """Sequences that depend on the seed alone."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(batch, length, self.width, generator=generator).to(self.dtype)

    def replace(self, x: Tensor, where: Bool[Tensor, "batch length"], seed: int) -> Tensor:
        """Other random vectors in those places.

        >>> x = torch.zeros(1, 2, 1)
        >>> Vectors(1).replace(x, torch.tensor([[False, True]]), seed=0)[0, 0]
        tensor([0.])
        """
        other = self.make(x.shape[0], x.shape[1], seed)
        return torch.where(where[..., None], other, x)


@dataclass(frozen=True)
class Tokens:
    """Random token numbers ``[batch length]``; ``avoid`` are numbers with a meaning of their own.

    ``dtype`` is the precision the model computes in, where its output is converted to a better one, and
    ``regroups`` the number of its layers if it is a mixture of experts (see `same_share`).

    >>> Tokens(100).make(batch=2, length=3, seed=0).shape
    torch.Size([2, 3])
    """

    vocabulary: int
    avoid: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    regroups: int = 0

    def make(self, batch: int, length: int, seed: int) -> Tensor:
        """Sequences that depend on the seed alone."""
        plain = torch.tensor([number for number in range(self.vocabulary) if number not in self.avoid])
        generator = torch.Generator().manual_seed(seed)
        return plain[torch.randint(len(plain), (batch, length), generator=generator)]

    def replace(self, x: Tensor, where: Bool[Tensor, "batch length"], seed: int) -> Tensor:
        """Other tokens in those places.

        >>> Tokens(9).replace(torch.zeros(1, 2).long(), torch.tensor([[False, True]]), seed=0)[0, 0]
        tensor(0)
        """
        return torch.where(where, self.make(x.shape[0], x.shape[1], seed), x)


Arguments = Inputs | Callable[[int], tuple[Any, ...]]
"""Sequences of a length, or a function that gives the arguments of a call of some size."""


def arguments(inputs: Arguments, size: int) -> tuple[Any, ...]:
    """What to call a function with, for an input of that size.

    >>> arguments(lambda heads: (heads, "halves"), 3)
    (3, 'halves')
    """
    return inputs(size) if callable(inputs) else (inputs.make(2, size, seed=0),)
