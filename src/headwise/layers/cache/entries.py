"""What one slot of a cache holds, how it is stored, and how it is read."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from headwise.layers.cache import eight_bits
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.counting import counted, following
from headwise.layers.cache.slots import Slots

SHARED = ("positions", "keep", "following")  # may have one row for all rows of the batch


class Entries:
    """Turns keys, values, positions, ``keep`` and features into tensors of slots, and back.

    ``keep`` is stored from the first time it is given, and with it (or with several axes of positions)
    ``following``, the position that comes after each slot: so a rollback finds it too.
    """

    def __init__(self, in_eight_bits: bool) -> None:
        self.in_eight_bits = in_eight_bits
        self.dtype = torch.get_default_dtype()

    def copy(self) -> Entries:
        """Another one alike."""
        return copy.copy(self)

    def of(
        self,
        held: Slots,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        keep: Tensor | None,
        features: Tensor | None,
        axes: int,
    ) -> dict[str, Tensor]:
        """The tensors that new tokens add."""
        new = {"k": k, "v": v}
        if self.in_eight_bits:
            new["k"], new["k scale"] = eight_bits.encode(k)
            new["v"], new["v scale"] = eight_bits.encode(v)
        positions = positions.long() if positions.dim() == (2 if axes == 1 else 3) else positions.long()[None]
        new["positions"] = positions[:, None]
        if keep is None and held.count and "keep" in held.tensors:
            keep = torch.ones(1, k.shape[2], dtype=torch.bool, device=k.device)
        if keep is not None:
            new["keep"] = keep[:, None]
        if keep is not None or axes > 1:
            new["following"] = following(positions, keep, self.first(held, k.device))[:, None]
        if features is not None:
            new["features"] = features
        return new

    def align(self, held: Slots, new: dict[str, Tensor]) -> None:
        """Let what is held and what is new agree in names and in rows."""
        if held.count == 0:
            return
        if "keep" in new and "keep" not in held.tensors:
            held.add("keep", torch.ones_like(held.live("k")[:1, :1, :, 0], dtype=torch.bool))
        if "following" in new and "following" not in held.tensors:
            held.add("following", held.live("positions") + 1)
        for name in SHARED:
            if name in new and held.tensors[name].shape[0] != new[name].shape[0]:
                rows = max(held.tensors[name].shape[0], new[name].shape[0])
                held.tensors[name] = _widened(held.tensors[name], rows)
                new[name] = _widened(new[name], rows)

    def first(self, held: Slots, device: torch.device | None) -> Tensor:
        """The position of the next token of each row."""
        if held.count == 0:
            return torch.zeros(1, dtype=torch.long, device=device)
        if "following" in held.tensors:
            return held.live("following", 1)[:, 0, 0]
        return held.live("positions", 1)[:, 0, 0] + 1

    def count_on(
        self, held: Slots, length: int, keep: Tensor | None, device: torch.device | None, axes: int
    ) -> Tensor:
        """The positions of the next tokens, unless they are told."""
        positions = counted(self.first(held, device), length, keep)
        if axes > 1:
            positions = positions[..., None].expand(*positions.shape, axes)
        return positions[0] if positions.shape[0] == 1 else positions

    def read(self, held: Slots, last: int | None = None, filled: int | None = None) -> Cached:
        """What is in use, or its last so many slots; or every slot there is, ``filled`` of them in use."""
        if filled is None:
            read = {name: held.live(name, last) for name in held.tensors}
        else:
            read = dict(held.tensors)
        k, v, positions = read["k"], read["v"], read["positions"][:, 0]
        if self.in_eight_bits:
            k = eight_bits.decode(k, read["k scale"], self.dtype)
            v = eight_bits.decode(v, read["v scale"], self.dtype)
        keep = read["keep"][:, 0] if "keep" in read else None
        positions = positions[0] if positions.shape[0] == 1 else positions
        return Cached(k, v, positions, keep, read.get("features"), filled)

    def to(self, held: Slots, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        """Move everything; convert keys and values, of which scales and codes keep their kind."""
        self.dtype = self.dtype if dtype is None else dtype
        for name, x in held.tensors.items():
            converted = dtype if name in ("k", "v") and not self.in_eight_bits else None
            held.tensors[name] = x.to(device=device, dtype=converted)


def _widened(x: Tensor, rows: int) -> Tensor:
    return x if x.shape[0] == rows else x.expand(rows, *x.shape[1:]).contiguous()
