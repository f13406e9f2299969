"""What an encoding adds to scores and to outputs, made only where it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core import BiasFunction, Mask, ValueBiasFunction
from headwise.core.block import Block, Scores


@dataclass(frozen=True, eq=False)
class Terms:
    """The functions that a call of our own attention was given, for all of the call or for a part of it.

    They are always asked about the call as the model made it, with its queries, keys and mask, for what they
    give may depend on keys that have been taken out since; the part is then taken of what they gave.
    ``row`` is the sequence of the batch that is left, ``heads``, ``queries`` and ``keys`` are the numbers of
    those left, None for all.

    >>> x = torch.zeros(1, 1, 4, 2)
    >>> terms = Terms(x, x, None, lambda q, k, rows, columns, visible: torch.arange(16.0).view(1, 1, 4, 4)[
    ...     :, :, rows, columns])
    >>> terms.only(queries=torch.tensor([1, 3]), keys=torch.tensor([0, 2])).dense()
    tensor([[[[ 4.,  6.],
              [12., 14.]]]])
    """

    q: Float[Tensor, "batch heads query head_dim"]
    k: Float[Tensor, "batch kv_heads key head_dim"]
    mask: Mask | None
    of_scores: BiasFunction | None = None
    of_values: ValueBiasFunction | None = None
    row: int | None = None
    heads: Tensor | None = None
    queries: Tensor | None = None
    keys: Tensor | None = None
    has_gradient: bool = True

    def only(
        self,
        *,
        row: int | None = None,
        heads: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Terms:
        """The terms of a part of this part; queries and keys are numbers or marks."""
        if self.row is not None or self.q.shape[0] == 1:
            row = self.row
        return replace(
            self,
            row=row,
            heads=_of(self.heads, heads, self.q.shape[1]),
            queries=_of(self.queries, queries, self.q.shape[2]),
            keys=_of(self.keys, keys, self.k.shape[2]),
        )

    def detached(self) -> Terms:
        """The same terms without their gradients."""
        return replace(self, q=self.q.detach(), k=self.k.detach(), has_gradient=False)

    def dense(self) -> Float[Tensor, "#batch #heads query key"]:
        """What is added to all scores of the part, as one tensor."""
        queries = self.q.shape[2] if self.queries is None else len(self.queries)
        keys = self.k.shape[2] if self.keys is None else len(self.keys)
        return self.bias(self.q, self.k, slice(0, queries), slice(0, keys), None)

    def bias(
        self, q: Tensor, k: Tensor, rows: slice | Tensor, columns: slice, visible: Tensor | None
    ) -> Float[Tensor, "#batch #heads rows columns"]:
        """A ``BiasFunction`` for the part: what it is given of it, its own queries, keys and mask replace."""
        queries, keys = self.q.shape[2], self.k.shape[2]
        at = rows if self.queries is None else self.queries[rows]
        first, last = _ends(at)
        reach = (
            (0, keys)
            if self.mask is None
            else self.mask.reach(first + keys - queries, last + keys - queries, keys)
        )
        wanted = (
            torch.arange(keys, device=self.k.device)[columns] if self.keys is None else self.keys[columns]
        )
        asked = _ends(wanted)
        start, stop = min(reach[0], asked[0]), max(reach[1], asked[1] + 1)
        # a slice is always a run from its first to its last
        block = Block((first, last + 1) if isinstance(at, slice) else at, (start, stop), keys - queries)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.has_gradient):
            how = Scores(self.mask, self.of_scores, 1.0, None)
            shown = block.visible(self.mask, self.q.device)
            made = block.bias(self.q[:, :, at], self.k[:, :, start:stop], how, shown)
            assert made is not None
            made = made[..., wanted - start]
        made = made if self.row is None or made.shape[0] == 1 else made[self.row : self.row + 1]
        return made if self.heads is None or made.shape[1] == 1 else made[:, self.heads]

    def value_bias(
        self, weights: Float[Tensor, "batch heads rows columns"], rows: slice | Tensor, columns: slice
    ) -> Float[Tensor, "batch heads rows value_dim"]:
        """A ``ValueBiasFunction`` for the part: whatever is not in it gets no weight."""
        assert self.of_values is not None
        batch, heads, keys = self.q.shape[0], self.q.shape[1], self.k.shape[2]
        at = rows if self.queries is None else self.queries[rows]
        these = slice(None) if self.heads is None else self.heads
        whole = weights
        if self.row is not None or self.heads is not None or self.keys is not None:
            wanted = torch.arange(keys, device=weights.device) if self.keys is None else self.keys
            spread = weights.new_zeros(*weights.shape[:3], keys).index_copy(3, wanted[columns], weights)
            columns = slice(0, keys)
            all_heads = torch.arange(heads, device=weights.device)[these]
            spread = spread.new_zeros(len(spread), heads, *spread.shape[2:]).index_copy(1, all_heads, spread)
            whole = spread.expand(batch, -1, -1, -1) if self.row is not None else spread
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.has_gradient):
            made = self.of_values(whole, at, columns)
        return (made if self.row is None else made[self.row : self.row + 1])[:, these]


def _of(part: Tensor | None, chosen: Tensor | None, size: int) -> Tensor | None:
    """The numbers of those chosen among a part, None for all."""
    if chosen is None:
        return part
    return (torch.arange(size, device=chosen.device) if part is None else part)[chosen]


def _ends(places: slice | Tensor) -> tuple[int, int]:
    if isinstance(places, slice):
        return int(places.start), int(places.stop) - 1
    return int(places.min()), int(places.max())
