"""Slower for all pairs alike, or for none of the fastest: interpolation and the NTK-aware bases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.shapes import check_positive
from headwise.layers.positions.scaling.scaling import FrequencyScaling, check_factor


@dataclass(frozen=True)
class PositionInterpolation(FrequencyScaling):
    """Every frequency divided by ``factor``: position p turns as ``p / factor`` did.

    Chen et al. 2023, arXiv 2306.15595. Also called linear scaling or condense ratio. Raises
    HeadwiseError for a factor below 1.

    >>> PositionInterpolation(4.0)(torch.tensor([1.0, 0.01]), None)
    tensor([0.2500, 0.0025])
    """

    factor: float
    source: ClassVar[str] = "Chen et al. 2023, arXiv 2306.15595"

    def __post_init__(self) -> None:
        check_factor(self.factor, who="PositionInterpolation")

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        return frequencies / self.factor


@dataclass(frozen=True)
class NTKAware(FrequencyScaling):
    """A larger base, ``base * factor^(dims / (dims - 2))``: the slowest pair is divided by ``factor``.

    The fastest pair keeps its frequency, and pair i of n is divided by ``factor^(i / (n - 1))``, which is
    what that base comes to. bloc97 2023, restated in Peng et al. 2023, arXiv 2309.00071, section 3.1. Raises
    HeadwiseError for a factor below 1.

    >>> NTKAware(4.0)(torch.tensor([1.0, 0.1, 0.01]), None)
    tensor([1.0000, 0.0500, 0.0025])
    """

    factor: float
    source: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071, section 3.1"

    def __post_init__(self) -> None:
        check_factor(self.factor, who="NTKAware")

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        return _slower_by(frequencies, torch.tensor(self.factor).to(frequencies))


@dataclass(frozen=True)
class DynamicNTK(FrequencyScaling):
    """``NTKAware`` by ``factor * length / original_length - (factor - 1)``, where that is above 1.

    Up to ``original_length`` nothing changes. Peng et al. 2023, arXiv 2309.00071, section 3.3, and emozilla
    2023. Keys turned at one length do not fit queries turned at another, so either one length holds for all
    calls or nothing is cached. Raises HeadwiseError for a factor below 1.

    >>> slowest_two = torch.tensor([0.1, 0.01])
    >>> DynamicNTK(2.0, original_length=2048)(slowest_two, 2048)
    tensor([0.1000, 0.0100])
    >>> DynamicNTK(2.0, original_length=2048)(slowest_two, 4096)
    tensor([0.1000, 0.0033])
    """

    factor: float
    original_length: int
    needs_length: ClassVar[bool] = True
    source: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071, section 3.3"

    def __post_init__(self) -> None:
        check_factor(self.factor, who="DynamicNTK")
        check_positive(self.original_length, who="DynamicNTK", what="original_length")

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        longer = torch.as_tensor(length, device=frequencies.device).to(frequencies) / self.original_length
        return _slower_by(frequencies, (self.factor * longer - (self.factor - 1)).clamp(min=1))


def _slower_by(frequencies: Tensor, factor: Tensor) -> Tensor:
    pairs = frequencies.shape[-1]
    share = torch.arange(pairs, device=frequencies.device).to(frequencies) / max(pairs - 1, 1)
    return frequencies * factor[..., None] ** -share
