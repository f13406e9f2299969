"""p-RoPE, or proportional rotary: the slowest pairs do not turn at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.layers.positions.scaling.scaling import FrequencyScaling, check_factor, check_number


@dataclass(frozen=True)
class Proportional(FrequencyScaling):
    """The fastest ``share`` of the pairs turn as ever, the others have frequency 0; all divided by factor.

    Barbero et al. 2024, arXiv 2410.06205 (p-RoPE); Gemma 4 uses it. It is not partial rotary:
    frequencies are still ``base^(-2i / head_dim)``, and pairs reach over the whole head. A share of pairs
    that is no whole number is rounded down. Raises HeadwiseError for a share that is not from 0 to 1 and for
    a factor below 1.

    >>> Proportional(0.5)(torch.tensor([1.0, 0.1, 0.01, 0.001]), None)
    tensor([1.0000, 0.1000, 0.0000, 0.0000])
    """

    share: float
    factor: float = 1.0
    source: ClassVar[str] = "Barbero et al. 2024, arXiv 2410.06205"

    def __post_init__(self) -> None:
        check_number(self.share, who="Proportional", what="share", above=False, at_most=1.0)
        check_factor(self.factor, who="Proportional")

    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        pairs = frequencies.shape[-1]
        turning = int(self.share * pairs)
        still = torch.zeros_like(frequencies[..., turning:])
        return torch.cat((frequencies[..., :turning] / self.factor, still), dim=-1)
