"""Masks that hold something about each token: padding, documents, any matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.masks.mask import Fused, Mask
from headwise.core.shapes import described, is_one_of


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Only real tokens are seen: ``visible(i, j) = keep[j]``, one row of ``keep`` for each row of the batch.

    >>> padding = Padding(torch.tensor([[False, True, True]]))
    >>> print(padding, padding.positions().tolist())
    padding (1 of 3 left out) [[0, 0, 1]]
    """

    keep: Bool[Tensor, "batch keys"]

    def __post_init__(self) -> None:
        if isinstance(self.keep, Tensor) and self.keep.dtype == torch.bool and self.keep.dim() == 2:
            return
        raise HeadwiseError(
            who="Padding",
            what="keep",
            expected="a boolean tensor [batch keys]",
            got=described(self.keep),
            why="True marks a real token, and some libraries mean the opposite",
            do="Pass tokens != pad_id, or attention_mask.bool()",
        )

    def positions(self) -> Int[Tensor, "batch keys"]:
        """Where each token stands when padding does not count: 0 at the first real token of each row."""
        return (self.keep.cumsum(-1) - 1).clamp(min=0)

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "batch 1 1 key"]:
        return self.keep[:, None, None, key_slots]

    def fused(self, queries: int, keys: int) -> Fused | None:
        return Fused(keep=self.keep)

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        _check_fits(self.keep, batch=batch, keys=keys, who="Padding", what="keep")

    def __str__(self) -> str:
        return f"padding ({int((~self.keep).sum())} of {self.keep.numel()} left out)"


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Packed documents do not see each other: ``visible(i, j) = ids[i] == ids[j]``.

    >>> slots = torch.arange(3)
    >>> Documents(torch.tensor([[7, 7, 9]])).visible(slots, slots).int()
    tensor([[[[1, 1, 0],
              [1, 1, 0],
              [0, 0, 1]]]], dtype=torch.int32)
    """

    ids: Int[Tensor, "batch keys"]

    def __post_init__(self) -> None:
        ids = self.ids
        if isinstance(ids, Tensor) and ids.dim() == 2 and ids.dtype in (torch.int64, torch.int32):
            return
        raise HeadwiseError(
            who="Documents",
            what="ids",
            expected="an integer tensor [batch keys]",
            got=described(ids),
            why="Tokens with the same number belong to the same document",
            do="Number the documents of each row, for example [[0, 0, 0, 1, 1]]",
        )

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "batch 1 query key"]:
        of_query = self.ids[:, query_slots.clamp(min=0)]  # a slot before the first key sees nothing anyhow
        visible = (of_query[:, :, None] == self.ids[:, None, key_slots]) & (query_slots >= 0)[:, None]
        return visible[:, None]

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        _check_fits(self.ids, batch=batch, keys=keys, who="Documents", what="ids")

    def __str__(self) -> str:
        return "within documents"


@dataclass(frozen=True, eq=False)
class Explicit(Mask):
    """Any boolean matrix: ``visible(i, j) = pairs[i, j]``, the rows being the last slots of the keys.

    >>> print(Explicit(torch.eye(3, dtype=torch.bool)))
    explicit (3 of 9 pairs visible)
    """

    pairs: Bool[Tensor, "*batch query key"]

    def __post_init__(self) -> None:
        pairs = self.pairs
        if isinstance(pairs, Tensor) and pairs.dtype == torch.bool and pairs.dim() in (2, 4):
            return
        raise HeadwiseError(
            who="Explicit",
            what="pairs",
            expected="a boolean tensor [query key] or [batch heads query key]",
            got=described(pairs),
            why="True means that this query may see this key, and some libraries mean the opposite",
            do="Invert the mask if True means hidden in it, or pass numbers to add as bias=",
        )

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "*batch query key"]:
        first_row = self.pairs.shape[-1] - self.pairs.shape[-2]
        return self.pairs[..., query_slots - first_row, :][..., key_slots]

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        *lead, rows, columns = self.pairs.shape
        if (
            columns == keys
            and rows >= queries
            and (not lead or (is_one_of(lead[0], 1, batch) and is_one_of(lead[1], 1, heads)))
        ):
            return
        raise HeadwiseError(
            who="Explicit",
            what="pairs",
            expected=f"[{queries}, {keys}] or [{batch}, {heads}, {queries}, {keys}]",
            got=described(self.pairs),
            why="It needs a row for each query and a column for each key, cached keys included",
            do="Make it for these queries and keys; an axis of batch or heads may be 1",
        )

    def __str__(self) -> str:
        return f"explicit ({int(self.pairs.sum())} of {self.pairs.numel()} pairs visible)"


def _check_fits(x: Tensor, *, batch: int, keys: int, who: str, what: str) -> None:
    if x.shape[-1] == keys and is_one_of(x.shape[0], 1, batch):
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"made for {batch} rows of {keys} keys",
        got=described(x),
        why="The mask needs one entry for each key of each row, cached ones included",
        do="Make it from the same batch that the keys come from",
    )
