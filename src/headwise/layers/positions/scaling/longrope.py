"""LongRoPE: one searched divisor for each pair, and two lists of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.scaling.scaling import FrequencyScaling, check_factor, check_number


@dataclass(frozen=True)
class LongRoPE(FrequencyScaling):
    """``theta_i / short_i`` up to ``original_length``, ``theta_i / long_i`` beyond it.

    Ding et al. 2024, arXiv 2402.13753; the switch is that of the Phi-3 models. Cosine and sine are
    multiplied by ``sqrt(1 + ln(factor) / ln(original_length))`` at every length, or by the attention factor
    given. Keys turned with one list do not fit queries turned with the other, so either one length holds for
    all calls or nothing is cached. Raises HeadwiseError for lists that do not have one number above 0 for
    each pair, and for a factor below 1.

    >>> scaling = LongRoPE(short=[1.0, 1.0], long=[1.0, 4.0], original_length=4096, factor=32.0)
    >>> scaling(torch.tensor([1.0, 0.01]), 4096), scaling(torch.tensor([1.0, 0.01]), 4097)
    (tensor([1.0000, 0.0100]), tensor([1.0000, 0.0025]))
    >>> round(scaling.attention_factor, 5)
    1.19024
    """

    short: Sequence[float]
    long: Sequence[float]
    original_length: int
    factor: float
    given_attention_factor: float | None = None
    needs_length: ClassVar[bool] = True
    source: ClassVar[str] = "Ding et al. 2024, arXiv 2402.13753"

    def __post_init__(self) -> None:
        for what in ("short", "long"):
            divisors = tuple(getattr(self, what))
            object.__setattr__(self, what, divisors)
            for divisor in divisors:
                check_number(divisor, who="LongRoPE", what=what)
        check_number(self.original_length, who="LongRoPE", what="original_length", at_least=1.0)
        check_factor(self.factor, who="LongRoPE")
        if self.given_attention_factor is not None:
            check_number(self.given_attention_factor, who="LongRoPE", what="given_attention_factor")

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        pairs = frequencies.shape[-1]
        for what, divisors in (("short", self.short), ("long", self.long)):
            if len(divisors) != pairs:
                raise HeadwiseError(
                    who="LongRoPE",
                    what=what,
                    expected=f"{pairs} numbers",
                    got=str(len(divisors)),
                    why="There is one for each pair of dimensions that turns",
                    do="Take both lists from one model, and its head_dim",
                )
        long = torch.as_tensor(length, device=frequencies.device)[..., None] > self.original_length
        short_divisors, long_divisors = (
            torch.tensor(divisors, device=frequencies.device, dtype=frequencies.dtype)
            for divisors in (self.short, self.long)
        )
        return torch.where(long, frequencies / long_divisors, frequencies / short_divisors)

    @property
    def attention_factor(self) -> float:
        if self.given_attention_factor is not None:
            return self.given_attention_factor
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))
