"""The scaling of Llama 3.1 and later: by the wavelength of each pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.scaling.scaling import FrequencyScaling, check_factor, check_number


@dataclass(frozen=True)
class Llama3(FrequencyScaling):
    """Waves shorter than ``original_length / high`` stay, those longer than ``/ low`` are ``factor`` slower.

    Between the two: ``theta' = (1 - t) theta / factor + t theta``, with
    ``t = (turns - low) / (high - low)`` and ``turns = original_length * theta / (2 pi)``. Grattafiori et al.
    2024, arXiv 2407.21783; the formula and its numbers are from the released code. Raises HeadwiseError for a
    factor below 1 and if ``high`` is not above ``low``.

    >>> Llama3(8.0, original_length=8192)(torch.tensor([0.1, 0.002, 0.0001]), None)
    tensor([1.0000e-01, 1.1878e-03, 1.2500e-05])
    """

    factor: float = 8.0
    original_length: int = 8192
    low: float = 1.0
    high: float = 4.0
    source: ClassVar[str] = "Grattafiori et al. 2024, arXiv 2407.21783, released code"

    def __post_init__(self) -> None:
        check_factor(self.factor, who="Llama3")
        check_positive(self.original_length, who="Llama3", what="original_length")
        check_number(self.low, who="Llama3", what="low")
        if not isinstance(self.high, (int, float)) or not self.low < self.high < math.inf:
            raise HeadwiseError(
                who="Llama3",
                what="high",
                expected=f"above low={self.low:g}",
                got=repr(self.high),
                why="Frequencies are blended between the two",
                do="Use low=1 and high=4, those of the released models",
            )

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        turns = self.original_length * frequencies / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequencies * kept + frequencies / self.factor * (1 - kept)
