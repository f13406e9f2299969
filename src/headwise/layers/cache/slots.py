"""Tensors that share one axis of slots: written at the end, read as views, moved only for want of room."""

from __future__ import annotations

import torch
from torch import Tensor

_AXIS = 2  # of every tensor: what has no heads carries an axis of one there


class Slots:
    """Named tensors ``[batch heads slot ...]``, of which the slots from ``start`` to ``stop`` are in use.

    >>> slots = Slots()
    >>> slots.extend({"k": torch.ones(1, 2, 3, 4)}, room=8)
    >>> slots.live("k").shape, slots.room
    (torch.Size([1, 2, 3, 4]), 8)
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.start = self.stop = self.room = 0

    @property
    def count(self) -> int:
        """Slots in use."""
        return self.stop - self.start

    def live(self, name: str, last: int | None = None) -> Tensor:
        """What is in use of one tensor, or the last so many slots of it: a view."""
        count = self.count if last is None else last
        return self.tensors[name].narrow(_AXIS, self.stop - count, count)

    def extend(self, new: dict[str, Tensor], room: int) -> None:
        """Write behind what is in use, in tensors of ``room`` slots.

        Where a gradient flows nothing is written over: the tensors are joined to new ones.
        """
        count = next(iter(new.values())).shape[_AXIS]
        if any(x.requires_grad for x in (*new.values(), *self.tensors.values())):
            self._join(new, count)
            return
        if self.count == 0:
            self._begin(new, room)
        elif room != self.room or self.stop + count > self.room or self._sealed():
            self.move(room)
        for name, x in new.items():
            self.tensors[name].narrow(_AXIS, self.stop, count).copy_(x)
        self.stop += count

    def move(self, room: int) -> None:
        """Take what is in use to the front of new tensors; views of the old ones stay true."""
        for name, old in self.tensors.items():
            new = _roomy(old, room)
            new.narrow(_AXIS, 0, self.count).copy_(self.live(name))
            self.tensors[name] = new
        self.start, self.stop, self.room = 0, self.count, room

    def add(self, name: str, live: Tensor) -> None:
        """Begin to hold something more, whose values for the slots in use are given."""
        self.tensors[name] = _roomy(live, self.room)
        self.live(name).copy_(live)

    def copy(self) -> Slots:
        """The same slots in memory of their own."""
        twin = Slots()
        twin.start, twin.stop, twin.room = self.start, self.stop, self.room
        twin.tensors = {name: x.clone() for name, x in self.tensors.items()}
        return twin

    def _begin(self, new: dict[str, Tensor], room: int) -> None:
        """Use again what an earlier sequence left, where it fits."""
        held = {} if self._sealed() else self.tensors
        self.tensors = {}
        for name, x in new.items():
            old, shape = held.get(name), (*x.shape[:_AXIS], room, *x.shape[_AXIS + 1 :])
            fits = old is not None and old.shape == shape and old.dtype == x.dtype and old.device == x.device
            self.tensors[name] = old if old is not None and fits else _roomy(x, room)
        self.start, self.stop, self.room = 0, 0, room

    def _join(self, new: dict[str, Tensor], count: int) -> None:
        empty = self.count == 0
        self.tensors = {
            name: x if empty else torch.cat((self.live(name), x), _AXIS) for name, x in new.items()
        }
        self.start, self.stop, self.room = 0, self.count + count, self.count + count

    def _sealed(self) -> bool:
        """Tensors made in inference mode cannot be written to outside of it."""
        if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
            return False
        return any(x.is_inference() for x in self.tensors.values())


def _roomy(like: Tensor, room: int) -> Tensor:
    return like.new_zeros((*like.shape[:_AXIS], room, *like.shape[_AXIS + 1 :]))
