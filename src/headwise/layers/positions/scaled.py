"""Frequencies with a base and, if wanted, a scaling that makes a model reach beyond its trained length."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.angles import check_base, frequencies
from headwise.layers.positions.pairs import Pairs
from headwise.layers.positions.scaling.scaling import FrequencyScaling, check_scaling
from headwise.layers.positions.turning import Length, Turning


class ScaledTurning(Turning):
    """Pair i has the frequency ``base^(-2i / dims)``, which ``scaling`` changes.

    A scaling that depends on the length takes it from ``length``: a number, which holds for every call, or
    "positions": the largest position of each row, of queries and keys together, plus 1. With the latter a key
    turns by another angle once the sequence is longer, so it cannot be cached, and shifted positions are not
    the same. Raises HeadwiseError if such a scaling has no length, or another one has.

    >>> from headwise.layers.positions import Rotary
    >>> isinstance(Rotary(), ScaledTurning)
    True
    """

    def __init__(
        self,
        base: float,
        *,
        pairs: Pairs,
        dims: int | None,
        scaling: FrequencyScaling | None,
        length: int | Literal["positions"] | None,
    ) -> None:
        super().__init__(pairs, dims)
        check_base(base, who=type(self).__name__)
        self.base, self.scaling, self.length = base, scaling, length
        if scaling is not None:
            check_scaling(scaling, who=type(self).__name__)
        self._check_length()
        if length == "positions":
            self.relative = self.cacheable = False

    def frequencies(
        self,
        pairs: int,
        length: int | Int[Tensor, "*batch"] | None = None,
        device: torch.device | None = None,
    ) -> Float[Tensor, "*batch pairs"]:
        """Radians a token of each of that many pairs, scaled, in float64.

        >>> from headwise.layers.positions import Rotary
        >>> Rotary(100.0).frequencies(2)
        tensor([1.0000, 0.1000], dtype=torch.float64)
        """
        plain = frequencies(2 * pairs, self.base, device)
        if self.scaling is None:
            return plain
        fixed = self.length if isinstance(self.length, int) else None
        return self.scaling(plain, fixed if length is None else length)

    @property
    def _size(self) -> float:
        return 1.0 if self.scaling is None else self.scaling.attention_factor

    def _length(self, *positions: Tensor) -> Length:
        if self.length != "positions":
            return self.length
        axes = (-1,) if self.axes == 1 else (-2, -1)
        of_each = [
            at.amax(axes) + 1 if at.numel() else at.new_zeros(at.shape[: -len(axes)]) for at in positions
        ]
        return of_each[0] if len(of_each) == 1 else torch.maximum(*of_each)

    def _check_length(self) -> None:
        needed = self.scaling is not None and self.scaling.needs_length
        if needed and self.length == "positions":
            return
        if needed and self.length is not None:
            check_positive(self.length, who=type(self).__name__, what="length")
        elif needed or self.length is not None:
            raise HeadwiseError(
                who=type(self).__name__,
                what="length",
                expected="a number of tokens or 'positions'" if needed else "None",
                got=repr(self.length),
                why=f"The frequencies depend on the length with {self.scaling}"
                if needed
                else f"The frequencies do not depend on the length with scaling={self.scaling}",
                do="Pass the longest length there will be, or 'positions' to take that of each call"
                if needed
                else "Leave it out",
            )

    def extra_repr(self) -> str:
        scaling = "" if self.scaling is None else f", scaling={self.scaling}"
        length = "" if self.length is None else f", length={self.length!r}"
        return f"base={self.base:g}, {super().extra_repr()}{scaling}{length}"
