"""How far the queries of a map look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from headwise.core.map_pieces import Piece
from headwise.core.map_runs import Runs, runs_of
from headwise.core.map_scores import is_run


class Distance(NamedTuple):
    """Distances ``|i - j|`` in tokens, weighted by attention to keys: a sink is at no distance.

    ``histogram[..., b]`` is the mass that the average query gives to distances from ``edges[b]`` up to, but
    not including, ``edges[b + 1]``: 0, 1, 2-3, 4-7 and so on.
    """

    mean: Float[Tensor, "batch heads query"]
    spread: Float[Tensor, "batch heads query"]
    histogram: Float[Tensor, "batch heads bins"]
    edges: list[int]


def distance_of(pieces: Iterable[Piece], shape: tuple[int, int, int, int], like: Tensor) -> Distance:
    """The distances of a map given in pieces, in one pass.

    >>> from headwise.core import AttentionMap, Causal
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> found = AttentionMap(x, x, mask=Causal()).distance()
    >>> found.mean[0, 0], found.edges
    (tensor([0.0000, 0.5000, 1.0000, 1.5000]), [0, 1, 2, 4])
    """
    batch, heads, queries, keys = shape
    means, spreads = [like.new_zeros(batch, heads, 0)], [like.new_zeros(batch, heads, 0)]
    offsets = ByOffset(shape, like)
    for piece in pieces:
        runs = runs_of(piece, keys - queries)
        mean, spread = mean_and_spread(runs, piece.mass)
        means.append(mean)
        spreads.append(spread)
        offsets.add(piece, None)
    histogram, edges = offsets.histogram()
    histogram = (histogram / max(1, queries)).to(like.dtype)
    return Distance(torch.cat(means, dim=2), torch.cat(spreads, dim=2), histogram, edges)


class ByOffset:
    """The total mass at each offset ``j - i``, in float64: every diagonal's sum at once."""

    def __init__(self, shape: tuple[int, int, int, int], like: Tensor) -> None:
        batch, heads, self.queries, self.keys = shape
        length = max(0, self.queries + self.keys - 1)
        self.total = like.new_zeros(batch, heads, length, dtype=torch.float64)

    def add(self, piece: Piece, count: Float[Tensor, "batch rows"] | None) -> None:
        """Add the rows of a piece, each shifted to its own place; ``count`` says how much each row counts."""
        weights = piece.weights if count is None else piece.weights * count[:, None, :, None]
        places = self.queries - 1 - piece.rows + piece.columns.start  # of the first column in the total
        low, high = int(places.min()), int(places.max()) + weights.shape[-1]
        shifted = (
            sums_of_diagonals(weights) if is_run(piece.rows) else _sums_of_shifted(weights, places - low)
        )
        self.total[..., low:high] += shifted

    def histogram(self) -> tuple[Float[Tensor, "batch heads bins"], list[int]]:
        """The mass by distance in bins that double, and their edges."""
        edges = edges_of(self.queries, self.keys)
        offsets = torch.arange(self.total.shape[-1], device=self.total.device) - (self.keys - 1)
        bins = torch.bucketize(offsets.abs(), torch.tensor(edges[1:], device=offsets.device), right=True)
        total = self.total.new_zeros(*self.total.shape[:2], len(edges) - 1)
        return total.index_add_(-1, bins, self.total), edges


def edges_of(queries: int, keys: int) -> list[int]:
    """Bins of distances that double, up to the largest there can be.

    >>> edges_of(1, 5)
    [0, 1, 2, 4, 8]
    """
    return [0, *(2**power for power in range((max(1, keys, queries) - 1).bit_length() + 1))]


def sums_of_diagonals(
    weights: Float[Tensor, "batch heads rows columns"],
) -> Float[Tensor, "batch heads offsets"]:
    """The sum of each diagonal, from the one entry in the lower left corner to that in the upper right.

    In memory the next entry of a diagonal is one row and one place on, so another view has them as columns.

    >>> sums_of_diagonals(torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]]))
    tensor([[[4., 6., 8., 3.]]])
    """
    rows, columns = weights.shape[-2:]
    more = rows - 1
    if columns < rows:
        return _slanted(pad(weights, (more, more))).sum(-2)
    left, right = pad(weights[..., :more], (more, 0)), pad(weights[..., columns - more :], (0, more))
    return torch.cat([_slanted(part).sum(-2) for part in (left, weights, right)], dim=-1)


def _slanted(weights: Tensor) -> Tensor:
    """The diagonals that all rows have an entry of, as columns: no copy."""
    weights = weights.contiguous()
    *others, row, column = weights.stride()
    *axes, rows, columns = weights.shape
    return weights.as_strided((*axes, rows, columns - rows + 1), (*others, row + column, column))


def _sums_of_shifted(weights: Tensor, places: Tensor) -> Tensor:
    """The sum of rows that begin at different places."""
    width = weights.shape[-1]
    total = weights.new_zeros(*weights.shape[:2], int(places.max()) + width)
    for row, place in zip(weights.unbind(2), places.tolist(), strict=True):
        total.narrow(-1, place, width).add_(row)
    return total


def mean_and_spread(
    runs: Runs, mass: Float[Tensor, "batch heads rows"]
) -> tuple[Float[Tensor, "batch heads rows"], Float[Tensor, "batch heads rows"]]:
    """Mean and standard deviation of each row's distances; ``mass`` is what the row adds up to.

    Moments are taken about the middle of a run, so that a spread of one token is seen at a mean of many
    thousands. ``d = s (i - c) - s u`` with the middle ``c``, ``u = j - c`` and the side ``s``; the run of the
    query's own place has keys on both sides, and each key of it counts by itself.
    """
    if not runs.count:
        return torch.zeros_like(mass), torch.zeros_like(mass)
    at = runs.own.div(runs.length, rounding_mode="floor").clamp(0, runs.count - 1)
    numbers = torch.arange(runs.count, device=mass.device)
    apart = (runs.own[:, None] - (numbers * runs.length + runs.length // 2)).double()
    elsewhere = (numbers != at[:, None]).double()
    side, far, square = apart.sign() * elsewhere, runs.mass * elsewhere, runs.square * elsewhere
    apart, linear = apart.abs(), runs.linear * side
    near, near_linear, near_square = _moments_of_own_run(runs, at)
    total = mass.double().where(mass > 0, 1.0)
    mean = ((apart * far - linear).sum(-1) + near_linear) / total
    apart = apart - mean[..., None]
    spread = ((apart * far - 2 * linear) * apart + square).sum(-1)
    spread += near_square + mean * (mean * near - 2 * near_linear)
    return mean.to(mass.dtype), spread.clamp_(min=0.0).div_(total).sqrt_().to(mass.dtype)


def _moments_of_own_run(runs: Runs, at: Int[Tensor, " rows"]) -> tuple[Tensor, ...]:
    """``sum p``, ``sum p d``, ``sum p d^2`` of each row's run ``at``, in float64: the mean cancels most."""
    places = torch.arange(runs.length, device=at.device, dtype=torch.float64)
    away = (places + (at * runs.length - runs.own)[:, None]).abs()
    powers = torch.stack([torch.ones_like(away), away, away * away], dim=-1)
    near = runs.chosen(at).double()
    moments = near.flatten(0, 1).transpose(0, 1) @ powers  # one product for each row
    return moments.permute(2, 1, 0).view(3, *near.shape[:3]).unbind(0)
