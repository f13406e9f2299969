"""The keys of a piece's rows in short runs: what readings by distance go by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from headwise.core.autocast import without_autocast
from headwise.core.map_pieces import Piece

_RUN = 64
_SHORTEST_RUN = 16


@dataclass(frozen=True, eq=False)
class Runs:
    """The weights of each row in runs of keys, and sums over each run about its middle.

    The last run may be filled up with zeros. ``own`` is the column of each query's own place among the keys,
    which may lie outside; ``mass``, ``linear`` and ``square`` are the sums of ``p``, ``p u`` and ``p u^2``
    with ``u`` counted from the middle of a run.
    """

    weights: Float[Tensor, "batch heads rows runs run"]
    own: Int[Tensor, " rows"]
    mass: Float[Tensor, "batch heads rows runs"]
    linear: Float[Tensor, "batch heads rows runs"]
    square: Float[Tensor, "batch heads rows runs"]

    @property
    def count(self) -> int:
        """How many runs there are."""
        return self.weights.shape[-2]

    @property
    def length(self) -> int:
        """How many keys there are in a run."""
        return self.weights.shape[-1]

    def chosen(self, numbers: Int[Tensor, " rows"]) -> Float[Tensor, "batch heads rows run"]:
        """Of each row the run of that number."""
        rows = self.weights[..., 0, 0]
        places = torch.arange(rows.numel(), device=rows.device).view(rows.shape) * self.count + numbers
        found = self.weights.view(-1, self.length).index_select(0, places.flatten())
        return found.view(*rows.shape, self.length)


def runs_of(piece: Piece, first_slot: int) -> Runs:
    """The rows of a piece in runs, query 0 of the map standing at ``first_slot`` of the keys.

    >>> from headwise.core import AttentionMap
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> (piece,) = AttentionMap(x, x).pieces()
    >>> runs_of(piece, 0).mass.shape, runs_of(piece, 0).length
    (torch.Size([1, 1, 4, 1]), 16)
    """
    weights, run = piece.weights, _RUN
    while weights.shape[-1] % run and run > _SHORTEST_RUN:
        run //= 2
    short = -weights.shape[-1] % run
    weights = pad(weights, (0, short)) if short else weights.contiguous()
    weights = weights.view(*weights.shape[:-1], weights.shape[-1] // run, run)
    u = torch.arange(run, device=weights.device) - run // 2
    powers = torch.stack([u**0, u, u**2]).to(weights.dtype)
    with without_autocast(weights.device):
        sums = (powers @ weights.flatten(0, -2).T).double().view(3, *weights.shape[:-1])
    return Runs(weights, piece.rows + (first_slot - piece.columns.start), *sums)
