"""Which token comes next, given a score for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from headwise.core import HeadwiseError
from headwise.core.shapes import check_positive

Pick = Callable[[Tensor, Generator | None], Tensor]


@dataclass(frozen=True)
class Greedy:
    """The token with the highest score, the first of several.

    >>> Greedy()(torch.tensor([[0.1, 2.0, 0.3]]))
    tensor([1])
    """

    def __call__(
        self, logits: Float[Tensor, "batch vocabulary"], generator: Generator | None = None
    ) -> Int[Tensor, " batch"]:
        return logits.argmax(-1)


@dataclass(frozen=True)
class Sample:
    """A token drawn with probability ``softmax(logits / temperature)``, after the unlikely ones are left out.

    ``top_k`` keeps the k most likely (Fan et al. 2018, arXiv 1805.04833, section 5.4). ``top_p`` keeps the
    fewest most likely that have at least this probability together (Holtzman et al. 2019, arXiv 1904.09751,
    section 3.1); of both, top_k comes first. Raises HeadwiseError for a temperature of 0 or below (that is
    `Greedy`), a top_k below 1, and a top_p that is not above 0 and at most 1.

    >>> Sample(temperature=0.7, top_k=2)(torch.tensor([[0.1, 9.0, -9.0]]), torch.Generator().manual_seed(0))
    tensor([1])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise HeadwiseError(
                who="Sample",
                what="temperature",
                expected="above 0",
                got=repr(self.temperature),
                why="Scores are divided by it",
                do="Use Greedy() for the most likely token",
            )
        if self.top_k is not None:
            check_positive(self.top_k, who="Sample", what="top_k")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise HeadwiseError(
                who="Sample",
                what="top_p",
                expected="above 0 and at most 1",
                got=repr(self.top_p),
                why="It is a share of the probability",
                do="Pass 0.9 to leave out the least likely tenth",
            )

    def __call__(
        self, logits: Float[Tensor, "batch vocabulary"], generator: Generator | None = None
    ) -> Int[Tensor, " batch"]:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        scores, order = (wide / self.temperature).sort(dim=-1, descending=True, stable=True)
        probabilities = scores[:, : self.top_k].softmax(-1)
        if self.top_p is not None:
            before = probabilities.cumsum(-1) - probabilities
            probabilities = probabilities.masked_fill(before >= self.top_p, 0.0)
        rank = torch.multinomial(probabilities, 1, generator=generator)
        return order.gather(-1, rank).squeeze(-1)
