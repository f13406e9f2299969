"""What a mask is: it says which keys a query may see, and combines with others by ``&``.

A mask speaks of *slots*: places in the key sequence, 0 to keys - 1. The queries are the last slots of that
sequence, so with a cache (fewer queries than keys) the last query always sees the last key. Slots say *when*
a token came; the positions an encoding reads say *where* it stands, and the two may differ.

A mask is named by what True means: ``visible`` (this query may see this key), ``keep`` (a real token).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import described


class Fused(NamedTuple):
    """What a fused kernel needs to serve a mask: the causal flag, and keys to keep or None for all."""

    causal: bool = False
    keep: Bool[Tensor, "batch keys"] | None = None


class Mask:
    """What every mask answers. A new one overrides ``visible``, and the others where it can be faster.

    Those say the same as one ``visible``: a class that overrides it inherits none of them.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "visible" in vars(cls):
            for name in ("reach", "ranges", "fused"):
                if name not in vars(cls):
                    setattr(cls, name, vars(Mask)[name])

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "*batch query key"]:
        """True where the query may see the key: ``[query key]``, or four axes if rows or heads differ."""
        raise NotImplementedError

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        """The range of keys, stop excluded, that queries ``first_query..last_query`` can see at most."""
        return 0, keys

    def ranges(
        self, query_slots: Int[Tensor, " query"], keys: int
    ) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]] | None:
        """The first key that each query sees and the one after its last, or None if some see other keys.

        Whoever gets ranges need not ask ``visible``: in every row and head a query sees all keys of its range
        and no others. One that sees nothing has a range that ends where it begins, or before.
        """
        return None

    def fused(self, queries: int, keys: int) -> Fused | None:
        """How a fused kernel serves this mask, or None where only the dense ``visible`` does."""
        return None

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        """Raise HeadwiseError if the mask holds a tensor that does not fit these sizes."""

    def __and__(self, other: Mask) -> Mask:
        """Visible to both. Raises HeadwiseError for anything but a mask."""
        check_mask(other, who="&")
        return All((self, *_parts(other)))


@dataclass(frozen=True)
class All(Mask):
    """What every one of several masks lets through; ``a & b`` makes one."""

    masks: tuple[Mask, ...]

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "*batch query key"]:
        visible = self.masks[0].visible(query_slots, key_slots)
        for mask in self.masks[1:]:
            visible = visible & mask.visible(query_slots, key_slots)
        return visible

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        starts, stops = zip(*(mask.reach(first_query, last_query, keys) for mask in self.masks), strict=True)
        return min(max(starts), min(stops)), min(stops)

    def ranges(
        self, query_slots: Int[Tensor, " query"], keys: int
    ) -> tuple[Int[Tensor, " query"], Int[Tensor, " query"]] | None:
        starts, stops = torch.zeros_like(query_slots), torch.full_like(query_slots, keys)
        for mask in self.masks:
            ranges = mask.ranges(query_slots, keys)
            if ranges is None:
                return None
            starts, stops = torch.maximum(starts, ranges[0]), torch.minimum(stops, ranges[1])
        return starts, stops

    def fused(self, queries: int, keys: int) -> Fused | None:
        causal, keep = False, None
        for mask in self.masks:
            served = mask.fused(queries, keys)
            if served is None:
                return None
            causal = causal or served.causal
            if served.keep is not None:
                keep = served.keep if keep is None else keep & served.keep
        # not every kernel takes the flag and a mask at once, and some then drop one of them in silence
        return None if causal and keep is not None else Fused(causal, keep)

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        for mask in self.masks:
            mask.check(batch=batch, heads=heads, queries=queries, keys=keys)

    def __and__(self, other: Mask) -> Mask:
        check_mask(other, who="&")
        return All((*self.masks, *_parts(other)))

    def __str__(self) -> str:
        return " & ".join(map(str, self.masks))


def _parts(mask: Mask) -> tuple[Mask, ...]:
    return mask.masks if isinstance(mask, All) else (mask,)


def check_mask(mask: object, *, who: str) -> None:
    """Refuse anything but a mask.

    >>> check_mask(Mask(), who="attention")
    """
    if isinstance(mask, Mask):
        return
    raise HeadwiseError(
        who=who,
        what="mask",
        expected="a Mask such as Causal() or Padding(keep)",
        got=described(mask),
        why="A bare tensor does not say whether True means seen or hidden, and libraries disagree",
        do="Use Explicit(visible) for [query key], Padding(keep) for [batch key]; numbers go to bias=",
    )
