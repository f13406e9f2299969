"""YaRN: fast pairs as they were, slow ones interpolated, a ramp between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.shapes import check_positive
from headwise.layers.positions.scaling.scaling import FrequencyScaling, check_factor, check_number


@dataclass(frozen=True)
class YaRN(FrequencyScaling):
    """Pairs that turn often within the trained length keep their frequency; slow ones are divided by factor.

    ``theta'_i = theta_i (1 - ramp_i) + theta_i / factor * ramp_i``, where ``ramp_i`` rises from 0 to 1
    between the pair that turns ``beta_fast`` times in ``original_length`` positions and the one that turns
    ``beta_slow`` times. With ``truncate`` the two ends are rounded outwards to whole pairs. Peng et al. 2023,
    arXiv 2309.00071, section 3.2 and, for the attention factor, section 3.4.

    Cosine and sine are multiplied by ``attention_factor``: the one given, or, with
    ``g(m) = 0.1 m ln(factor) + 1``, ``g(mscale) / g(mscale_all_dim)`` if both are there, or ``g(1)``.

    Raises HeadwiseError for a factor below 1 and for other numbers that are not above 0.

    >>> YaRN(4.0, original_length=4096).bounds(10000.0 ** (-torch.arange(0, 64, 2).double() / 64))
    (10.0, 23.0)
    >>> round(YaRN(4.0, original_length=4096).attention_factor, 5)
    1.13863
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    mscale: float | None = None
    mscale_all_dim: float | None = None
    given_attention_factor: float | None = None
    source: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071, sections 3.2 and 3.4"

    def __post_init__(self) -> None:
        check_factor(self.factor, who="YaRN")
        check_positive(self.original_length, who="YaRN", what="original_length")
        check_number(self.beta_slow, who="YaRN", what="beta_slow")
        check_number(self.beta_fast, who="YaRN", what="beta_fast", at_least=self.beta_slow)
        if self.given_attention_factor is not None:
            check_number(self.given_attention_factor, who="YaRN", what="given_attention_factor")

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        pairs = frequencies.shape[-1]
        if pairs < 2:
            return frequencies  # a lone pair is the fastest
        low, high = self._bounds(frequencies)
        pair = torch.arange(pairs, device=frequencies.device).to(frequencies)
        # both ends on one pair, or crossed where even the fastest pair is slow: a step instead of a ramp
        ramp = ((pair - low) / (high - low).clamp(min=0.001)).clamp(0, 1)
        return frequencies * (1 - ramp) + frequencies / self.factor * ramp

    def bounds(self, frequencies: Float[Tensor, " pairs"]) -> tuple[float, float]:
        """Between which pairs the ramp rises, of frequencies that fall by one ratio from pair to pair."""
        low, high = self._bounds(frequencies)
        return float(low), float(high)

    def _bounds(self, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        pairs = frequencies.shape[-1]
        first, last = frequencies[0].log(), frequencies[-1].log()
        step = (first - last) / (pairs - 1)
        low, high = (
            (first + math.log(self.original_length / (2 * math.pi * times))) / step
            for times in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = low.floor(), high.ceil()
        return low.clamp(min=0), high.clamp(max=2 * pairs - 1)

    @property
    def attention_factor(self) -> float:
        if self.given_attention_factor is not None:
            return self.given_attention_factor
        if self.mscale and self.mscale_all_dim:
            return self._growth(self.mscale) / self._growth(self.mscale_all_dim)
        return self._growth(1.0)

    @property
    def softmax_factor(self) -> float:
        """``g(mscale_all_dim)^2``, by which DeepSeek's latent attention multiplies the scale of its scores.

        >>> round(YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0).softmax_factor, 5)
        1.87385
        """
        return self._growth(self.mscale_all_dim) ** 2 if self.mscale_all_dim else 1.0

    def _growth(self, scale: float) -> float:
        return 0.1 * scale * math.log(self.factor) + 1.0
