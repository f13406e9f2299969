"""A rectangle of the score matrix, and what is added to the scores in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.shapes import check_bias

_MOST_ROWS = 512
_FEWEST_ROWS = 16


@runtime_checkable
class BiasFunction(Protocol):
    """Makes the additive bias of some of the call's queries (``rows``) and keys (``columns``).

    ``rows`` is a slice or a tensor of numbers: ``positions[..., rows]`` serves both. ``q`` and ``k`` are
    already cut to those rows and columns; ``visible`` is what the mask lets through, or None for everything.
    There is at least one of each. The result must be finite: hiding keys is the mask's work.
    """

    def __call__(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        rows: slice | Tensor,
        columns: slice,
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch #heads query key"]: ...


@runtime_checkable
class ValueBiasFunction(Protocol):
    """Makes what a block's output gains because values depend on who reads them: ``sum_j p_ij a_ij``.

    ``weights`` are those of the block's ``rows`` and ``columns``, after dropout, in float32 or better. The
    result is linear in them, so that a query that sees no key gains nothing.
    """

    def __call__(
        self, weights: Float[Tensor, "batch heads query key"], rows: slice | Tensor, columns: slice
    ) -> Float[Tensor, "batch heads query value_dim"]: ...


@dataclass(frozen=True)
class Scores:
    """What happens between ``Q K^T`` and the softmax; ``sinks`` are one logit for each query, no key's."""

    mask: Mask | None
    bias: Tensor | BiasFunction | None
    scale: float
    softcap: float | None
    sinks: Float[Tensor, "batch heads query"] | None = None


@dataclass(frozen=True)
class Block:
    """Some rows and columns of the score matrix; row 0 stands at slot ``first_slot`` of the keys.

    ``queries`` are the first row and the one after the last, or the numbers of all; ``keys`` are such a pair.
    Pairs and not slices: torch.compile takes a slice in an object for a constant, and would compile each
    length anew.
    """

    queries: tuple[int, int] | Tensor
    keys: tuple[int, int]
    first_slot: int

    @property
    def rows(self) -> slice | Tensor:
        """What picks the rows out of the queries' axis."""
        return self.queries if isinstance(self.queries, Tensor) else slice(*self.queries)

    @property
    def columns(self) -> slice:
        """What picks the columns out of the keys' axis."""
        return slice(*self.keys)

    @property
    def size(self) -> int:
        """Elements of one score matrix."""
        if isinstance(self.queries, Tensor):
            return len(self.queries) * (self.keys[1] - self.keys[0])
        return (self.queries[1] - self.queries[0]) * (self.keys[1] - self.keys[0])

    def query_slots(self, device: torch.device) -> Tensor:
        """Where the queries of these rows stand in the key sequence."""
        if isinstance(self.queries, Tensor):
            return self.queries + self.first_slot
        return torch.arange(*self.queries, device=device) + self.first_slot

    def part(self, start: int, stop: int, mask: Mask | None) -> Block:
        """The rows from ``start`` to ``stop``, over those columns that they can reach."""
        first, last = self.keys
        if mask is not None:
            reach = mask.reach(self.first_slot + start, self.first_slot + stop - 1, last)
            first = min(max(reach[0], first), last)
            last = max(first, min(reach[1], last))
        return Block((start, stop), (first, last), self.first_slot)

    def visible(self, mask: Mask | None, device: torch.device) -> Tensor | None:
        """What the mask lets through as ``[batch heads query key]``, or None for everything."""
        if mask is None:
            return None
        key_slots = torch.arange(*self.keys, device=device)
        visible = mask.visible(self.query_slots(device), key_slots)
        return visible if visible.dim() == 4 else visible[None, None]

    def bias(self, q: Tensor, k: Tensor, how: Scores, visible: Tensor | None) -> Tensor | None:
        """The bias of this block in float32 or better, or None."""
        if how.bias is None:
            return None
        if isinstance(how.bias, Tensor):
            bias = how.bias[:, :, self.rows][..., self.columns]
        elif self.size == 0:
            return None
        else:
            bias = how.bias(q, k, self.rows, self.columns, visible)
            check_bias(bias, (*q.shape[:3], k.shape[2]), what="what the bias function returns")
        return bias.to(torch.promote_types(q.dtype, torch.float32))


class Cut(NamedTuple):
    """Queries, keys and values of a block."""

    q: Tensor
    k: Tensor
    v: Tensor
    block: Block


def cut_up(whole: Cut, mask: Mask | None, most: int) -> Iterator[Cut]:
    """Cuts of at most ``most`` scores each, from the first row to the last, by halving.

    The gradient of a slice is as large as what was sliced, so a quarter is cut from a half and not from the
    whole. Each is cut only when its turn comes: the backward pass goes the other way and would hold them all.

    >>> x = torch.zeros(1, 1, 64, 2)
    >>> whole = Cut(x, x, x, Block((0, 64), (0, 64), 0))
    >>> [cut.block.queries for cut in cut_up(whole, None, most=2048)]
    [(0, 32), (32, 64)]
    """
    assert isinstance(whole.block.queries, tuple)
    first, last = whole.block.queries
    count = last - first
    if count <= _MOST_ROWS and (whole.block.size <= most or count <= _FEWEST_ROWS):
        yield whole
        return
    middle = first + (count + 1) // 2
    for start, stop in ((first, middle), (middle, last)):
        half = whole.block.part(start, stop, mask)
        q = whole.q[:, :, start - first : stop - first]
        reached = slice(*(key - whole.block.keys[0] for key in half.keys))
        yield from cut_up(Cut(q, whole.k[:, :, reached], whole.v[:, :, reached], half), mask, most)
