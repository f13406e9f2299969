"""How far the queries of a map look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.map_pieces import Piece

_RUN = 64  # keys whose moments are taken about their own middle
_SHORTEST_RUN = 16


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
        mean, spread = mean_and_spread(piece, keys - queries)
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
        width = piece.weights.shape[-1]
        starts = [self.queries - 1 - row + piece.columns.start for row in piece.rows.tolist()]
        low, high = min(starts), max(starts) + width
        part = piece.weights.new_zeros(*piece.weights.shape[:2], high - low)
        for row, start in enumerate(starts):
            weights = piece.weights[:, :, row]
            weights = weights if count is None else weights * count[:, None, row, None]
            part[..., start - low : start - low + width] += weights
        self.total[..., low:high] += part

    def histogram(self) -> tuple[Float[Tensor, "batch heads bins"], list[int]]:
        """The mass by distance in bins that double, and their edges."""
        edges = [0, *(2**power for power in range((max(1, self.keys, self.queries) - 1).bit_length() + 1))]
        offsets = torch.arange(self.total.shape[-1], device=self.total.device) - (self.keys - 1)
        bins = torch.bucketize(offsets.abs(), torch.tensor(edges[1:], device=offsets.device), right=True)
        total = self.total.new_zeros(*self.total.shape[:2], len(edges) - 1)
        return total.index_add_(-1, bins, self.total), edges


def mean_and_spread(
    piece: Piece, first_slot: int
) -> tuple[Float[Tensor, "batch heads rows"], Float[Tensor, "batch heads rows"]]:
    """Mean and standard deviation of each row's distances.

    Keys come in short runs, and moments are taken about the middle of a run, so that a spread of one token
    is seen at a mean of many thousands. ``d = s (i - c) - s u`` with the middle ``c``, ``u = j - c`` and the
    side ``s``; near the diagonal a run has keys on both sides, and each key counts by itself.
    """
    slots = piece.rows + first_slot
    start, width = piece.columns.start, piece.weights.shape[-1]
    run = _run_of(width)
    low = min(max(int(slots.min()) - start, 0) // run * run, width)
    high = min(-(-max(int(slots.max()) + 1 - start, 0) // run) * run, width)
    middle = piece.weights[..., low:high].double()
    away = (torch.arange(low, high, device=slots.device) + start - slots[:, None]).abs().double()
    moments, centres = _moments_of_runs(piece.weights, run)
    moments[..., low // run : -(-high // run), :] = 0.0
    to_centre = (slots[:, None] - centres - start).double()
    side, apart = to_centre.sign(), to_centre.abs()
    mass, first, second = moments.unbind(-1)
    total = piece.mass.double().where(piece.mass > 0, 1.0)
    mean = ((apart * mass - side * first).sum(-1) + (middle * away).sum(-1)) / total
    apart = apart - mean[..., None]
    squares = second - 2 * side * apart * first + apart.square() * mass
    near = middle * (away - mean[..., None]).square()
    spread = ((squares.sum(-1) + near.sum(-1)).clamp(min=0.0) / total).sqrt()
    return mean.to(piece.weights.dtype), spread.to(piece.weights.dtype)


def _run_of(width: int) -> int:
    run = _RUN
    while width % run and run > _SHORTEST_RUN:
        run //= 2
    return run


def _moments_of_runs(weights: Tensor, run: int) -> tuple[Tensor, Tensor]:
    """Of each run of keys the sums of ``p``, ``p u`` and ``p u^2``, and where its middle is."""
    width = weights.shape[-1]
    if width % run:
        weights = torch.nn.functional.pad(weights, (0, -width % run))
    runs = weights.shape[-1] // run
    u = torch.arange(run, device=weights.device) - run // 2
    powers = torch.stack([u**0, u, u**2], dim=-1).to(weights.dtype)
    with without_autocast(weights.device):
        sums = (weights.contiguous().view(*weights.shape[:-1], runs, run).flatten(0, 3) @ powers).view(
            *weights.shape[:-1], runs, 3
        )
    return sums.double(), torch.arange(runs, device=weights.device) * run + run // 2
