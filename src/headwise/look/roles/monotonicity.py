"""Monotonicity: does the place a head looks at move on with the queries, as a reader's finger does?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core import AttentionMap
from headwise.look.roles.best_of_heads import DRAWS, best_by_chance, p_of_best

_ROUNDINGS = 8  # of a weight: exp, sum, division and a few in the score


@dataclass(frozen=True, eq=False)
class Monotonicity:
    """Of every head: ``correlation`` of its centre with the order of the queries, and how often it rises.

    ``correlation`` is Spearman's, from -1 (backwards) to 1; 0 for a centre that stays where it is. ``rising``
    is the share of steps from a query to the next in which the centre does not go back: also 1 for a centre
    that stays, so read it beside the other. Each comes with its standard error and a one-sided p against the
    best of all heads whose centres take the same steps each way at random. ``rows`` counts the queries of
    each head.
    """

    correlation: Float[Tensor, " heads"]
    correlation_error: Float[Tensor, " heads"]
    correlation_p: Float[Tensor, " heads"]
    rising: Float[Tensor, " heads"]
    rising_error: Float[Tensor, " heads"]
    rising_p: Float[Tensor, " heads"]
    rows: Int[Tensor, " heads"]


def centres(
    attention: AttentionMap,
    *,
    queries: Bool[Tensor, "#batch query"] | None = None,
    keys: Bool[Tensor, "#batch key"] | None = None,
) -> Float[Tensor, "batch heads query"]:
    """``c_i = sum_j p_ij j / sum_j p_ij``: the place among the keys that each query looks at on average.

    ``queries`` and ``keys`` mark what counts. A query that is left out, or gives the keys that count nothing,
    has no centre: NaN. Centres are rounded to what the precision of the weights can tell apart, or equal ones
    would get an order from rounding.

    >>> x = torch.zeros(1, 1, 2, 4)
    >>> centres(AttentionMap(x, torch.zeros(1, 1, 5, 4)))
    tensor([[[2., 2.]]], dtype=torch.float64)
    """
    batch, heads, rows, columns = attention.shape
    like = attention.q.new_zeros((), dtype=torch.float64)
    kept = like.new_ones(1, columns) if keys is None else keys.to(like)
    places = torch.arange(columns, device=like.device).to(like)
    middle = (kept * places).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1)
    # from the middle, so that even attention gives zero and no rounding can part its rows
    values = torch.stack([kept * (places - middle), kept], dim=-1)[:, None]
    sums = like.new_zeros(batch, heads, rows, 2)
    for piece in attention.pieces():
        sums[:, :, piece.rows] = piece.weights.double() @ values[:, :, piece.columns]
    step = 2.0 ** math.ceil(math.log2(_ROUNDINGS * torch.finfo(attention.dtype).eps * max(1, columns)))
    mass = sums[..., 1].masked_fill(sums[..., 1] < torch.finfo(attention.dtype).tiny, torch.nan)
    found = (sums[..., 0] / mass / step).round() * step + middle[:, None]
    return found if queries is None else found.masked_fill(~queries[:, None], torch.nan)


def monotonicity(found: Float[Tensor, "heads query"], *, draws: int = DRAWS, seed: int = 0) -> Monotonicity:
    """How far the centres of all heads move on with the queries; a query without a centre does not count.

    Give all heads that the best is sought among, of all layers, together. Spearman 1904; the standard error
    ``(1 - r^2) sqrt((1 + r^2 / 2) / (n - 3))`` from Bonett & Wright 2000, Psychometrika 65, eq. (3), of rows
    taken as independent: too small where neighbouring queries look at neighbouring places.

    The null keeps that nearness: ``c*_i = c_0 + sum_{j <= i} s_j (c_j - c_{j-1})``, each ``s_j`` 1 or -1 at
    random and the same for all heads. It assumes that steps are as likely to go forwards as backwards,
    whatever came before. Queries in random order would assume independent centres, and take every walk for
    order (Granger & Newbold 1974, Journal of Econometrics 2). Where centres are independent p is too large,
    never too small: a drift that is less than what one step varies by is not found. With ``n`` queries p is
    at least ``2^(1 - n)``, so under six are never enough for 5 %. Fisher 1935, The Design of Experiments,
    section 21 (signs).

    >>> m = monotonicity(torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 2.0, 2.0, 1.0, 1.0, 0.0]]))
    >>> m.correlation[0].item(), round(m.correlation[1].item(), 4), m.rising.tolist()
    (1.0, -0.971, [1.0, 0.4])
    """
    whole, seen = found.double(), ~found.isnan()
    rows, steps = seen.sum(-1), _steps(whole)

    def figures(centre: Tensor) -> Tensor:
        ranks = average_ranks(centre)
        return torch.stack([_correlation(_centred(ranks, seen), seen), _rising(ranks)])

    def walked(signs: Tensor) -> Tensor:
        return figures((signs.to(steps) * steps).cumsum(-1).masked_fill(~seen, torch.nan))

    value = figures(whole)
    p = p_of_best(value, best_by_chance(walked, _signs(found.shape[1], draws, seed)))
    r, rising = value
    error = (1 - r**2) * ((1 + r**2 / 2) / (rows - 3).where(rows > 3, torch.nan)).sqrt()
    of_rising = (rising * (1 - rising) / (rows - 1).where(rows > 1, torch.nan)).sqrt()
    return Monotonicity(r, error, p[0], rising, of_rising, p[1], rows)


def average_ranks(x: Float[Tensor, "heads query"]) -> Float[Tensor, "heads query"]:
    """Places from 0 in ascending order, equal numbers sharing the mean of theirs; NaN stays NaN.

    >>> average_ranks(torch.tensor([[5.0, 1.0, 5.0, torch.nan]]))
    tensor([[1.5000, 0.0000, 1.5000,    nan]])
    """
    filled = x.masked_fill(x.isnan(), torch.inf).contiguous()
    ascending = filled.sort(-1).values
    below = torch.searchsorted(ascending, filled)
    not_above = torch.searchsorted(ascending, filled, right=True)
    return ((below + not_above - 1).to(x.dtype) / 2).masked_fill(x.isnan(), torch.nan)


def _centred(x: Tensor, seen: Tensor) -> Tensor:
    """The numbers less their mean, 0 where there is none."""
    filled = x.masked_fill(~seen, 0.0)
    mean = filled.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return (filled - mean).masked_fill(~seen, 0.0)


def _correlation(own: Tensor, seen: Tensor) -> Tensor:
    """Pearson's of the centred ranks with the order of the rows that are seen; 0 where it has no meaning."""
    order = _centred(seen.cumsum(-1).to(own), seen)
    size = own.norm(dim=-1) * order.norm(dim=-1)
    return torch.where(size > 0, (own * order).sum(-1) / size.where(size > 0, 1.0), 0.0).clamp(-1, 1)


def _before(x: Tensor) -> Tensor:
    """For each place the last one before it that holds a number; -1 where there is none."""
    last = torch.where(x.isnan(), -1, torch.arange(x.shape[1], device=x.device)).cummax(-1).values
    return torch.nn.functional.pad(last, (1, 0), value=-1)[:, :-1]


def _steps(centre: Tensor) -> Tensor:
    """``c_i - c_j``, j the last query before i that has a centre; 0 where there is no step."""
    before = _before(centre)
    return (centre - centre.gather(-1, before.clamp(min=0))).masked_fill(before < 0, 0.0).nan_to_num(0.0)


def _signs(length: int, draws: int, seed: int) -> Iterator[Int[Tensor, " length"]]:
    """1 or -1 for each query, the same ones for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(draws):
        yield 2 * torch.randint(2, (length,), generator=generator) - 1


def _rising(ranks: Tensor) -> Tensor:
    """The share of steps that do not go back, over rows without a centre; 0 where there is no step."""
    before = _before(ranks)
    steps = ~ranks.isnan() & (before >= 0)
    rises = steps & (ranks >= ranks.gather(-1, before.clamp(min=0)))
    return rises.sum(-1).double() / steps.sum(-1).clamp(min=1)
