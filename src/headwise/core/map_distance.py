"""How far the queries of a map look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.map_pieces import Piece


class Distance(NamedTuple):
    """Distances ``|i - j|`` in tokens, weighted by attention.

    ``histogram[..., b]`` is the mass that the average query gives to distances from ``edges[b]`` up to, but
    not including, ``edges[b + 1]``: 0, 1, 2-3, 4-7 and so on.
    """

    mean: Float[Tensor, "batch heads query"]
    spread: Float[Tensor, "batch heads query"]
    histogram: Float[Tensor, "batch heads bins"]
    edges: list[int]


def distance_of(pieces: Iterable[Piece], shape: tuple[int, int, int, int]) -> Distance:
    """The distances of a map given in pieces, in one pass.

    >>> from headwise.core import AttentionMap, Causal
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> found = AttentionMap(x, x, mask=Causal()).distance()
    >>> found.mean[0, 0], found.edges
    (tensor([0.0000, 0.5000, 1.0000, 1.5000]), [0, 1, 2, 4])
    """
    batch, heads, queries, keys = shape
    edges = [0, *(2**power for power in range((max(1, keys, queries) - 1).bit_length() + 1))]
    means, spreads, histogram = [], [], torch.zeros(batch, heads, len(edges) - 1, dtype=torch.float64)
    for piece in pieces:
        slots = piece.rows + keys - queries
        offsets = torch.arange(piece.columns.start, piece.columns.stop, device=slots.device) - slots[:, None]
        away = offsets.abs().to(piece.weights.dtype)
        mean = (piece.weights * away).sum(-1)
        centred = (away - mean[..., None]).square()
        means.append(mean)
        spreads.append((piece.weights * centred).sum(-1).sqrt())
        histogram += _by_distance(piece, slots, edges).sum(2).cpu()
    empty = torch.zeros(batch, heads, 0)
    return Distance(
        torch.cat(means, dim=2) if means else empty,
        torch.cat(spreads, dim=2) if spreads else empty,
        (histogram / max(1, queries)).to(means[0].dtype if means else torch.float32),
        edges,
    )


def _by_distance(piece: Piece, slots: Tensor, edges: list[int]) -> Tensor:
    """The mass of each row at each range of distances: differences of a running sum, one pass in all."""
    width = piece.weights.shape[-1]
    running = torch.nn.functional.pad(piece.weights.double().cumsum(-1), (1, 0))
    low, high = torch.tensor(edges[:-1], device=slots.device), torch.tensor(edges[1:], device=slots.device)
    place = (slots - piece.columns.start)[:, None]

    def between(start: Tensor, stop: Tensor) -> Tensor:
        ends = [end.clamp(0, width).expand(*running.shape[:2], -1, -1) for end in (start, stop)]
        return running.gather(-1, ends[1]) - running.gather(-1, ends[0])

    behind = between(place - high + 1, place - low + 1)
    ahead = between(place + low.clamp(min=1), place + high)
    ahead[..., 0] = 0.0  # distance 0 is counted behind
    return behind + ahead
