"""The null of the best head: how good the best of all heads gets by chance alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

DRAWS = 2000  # the smallest p is then 0.0005
_EQUAL = 1e-9  # figures nearer than this are equal: sums of the same numbers in another order


def orders(length: int, draws: int, seed: int) -> Iterator[Int[Tensor, " length"]]:
    """Random orders of ``length`` things, the same ones for the same seed.

    >>> [order.sort().values.tolist() for order in orders(3, draws=2, seed=0)]
    [[0, 1, 2], [0, 1, 2]]
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(draws):
        yield torch.randperm(length, generator=generator)


def best_by_chance(
    figures: Callable[[Int[Tensor, " length"]], Float[Tensor, "figures heads"]],
    drawn: Iterator[Int[Tensor, " length"]],
) -> Float[Tensor, "figures draws"]:
    """The best figure of all heads for each random order, or signs: the same for all, as they share rows.

    >>> best_by_chance(lambda order: torch.tensor([[0.1, 0.3], [2.0, 1.0]]), orders(3, draws=1, seed=0))
    tensor([[0.3000],
            [2.0000]])
    """
    return torch.stack([figures(draw).amax(-1) for draw in drawn], dim=1)


def p_of_best(
    found: Float[Tensor, "figures heads"], by_chance: Float[Tensor, "figures draws"]
) -> Float[Tensor, "figures heads"]:
    """``p = (1 + draws whose best head is as good) / (1 + draws)`` for each head, one-sided.

    The one added is what was found, which chance could have given as well: p is never 0. Westfall & Young
    1993, Resampling-Based Multiple Testing, section 2.3 (max statistic); Phipson & Smyth 2010, arXiv
    1603.05766 (the one).

    >>> p_of_best(torch.tensor([[0.9, 0.2]]), torch.tensor([[0.1, 0.2, 0.3]]))
    tensor([[0.2500, 0.7500]])
    """
    as_good = by_chance[:, None, :] >= found[:, :, None] - _EQUAL
    return (1.0 + as_good.sum(-1)) / (1.0 + by_chance.shape[1])
