"""Reading binary files that may be damaged: every length is checked before anything is made for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headwise.core import HeadwiseError


class Damaged(Exception):  # noqa: N818 - a reason, turned into a HeadwiseError where the path is known
    """Why a file cannot be read."""


@contextmanager
def reading(path: str | Path, *, expected: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a HeadwiseError that names it.

    >>> with reading("a.gguf", expected="a whole GGUF file"):
    ...     raise Damaged("It is too short")
    Traceback (most recent call last):
    ...
    headwise.errors.HeadwiseError: model: the file must be a whole GGUF file, got 'a.gguf'. It is too \
short. Install or fetch it again.
    """
    try:
        yield
    except (Damaged, OSError) as error:
        raise HeadwiseError(
            who="model",
            what="the file",
            expected=expected,
            got=repr(str(path)),
            why=getattr(error, "strerror", None) or str(error),
            do="Install or fetch it again",
        ) from error


def mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, memory-mapped: what is not used is not read."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, np.uint8)
    return np.memmap(path, np.uint8, mode="r").view(np.ndarray)


class Weights(dict[str, Tensor]):
    """Weights by name; one that is not there makes the file damaged."""

    def __missing__(self, name: str) -> Tensor:
        raise Damaged(f"It has no weight {name}")


class Cursor:
    """A place in the bytes of a file that moves as values are read and never past the end.

    >>> cursor = Cursor(struct.pack("<IQ2s", 7, 2, b"ok"))
    >>> cursor.number("<I"), cursor.text(cursor.number("<Q"))
    (7, 'ok')
    >>> cursor.number("<B")
    Traceback (most recent call last):
    ...
    headwise.models.binary.Damaged: It ends too early
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self.view, self.place = memoryview(data), 0

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        self.check_room(size)
        start, self.place = self.place, self.place + size
        return self.view[start : self.place]

    def check_room(self, size: int) -> None:
        """Refuse a length that the rest of the file cannot hold."""
        if size > len(self.view) - self.place:
            raise Damaged("It ends too early")

    def number(self, layout: str) -> Any:  # noqa: ANN401 - an int, a float or a bool, as the layout says
        """One number in a layout of ``struct``."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self, size: int) -> str:
        """That many bytes of UTF-8."""
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise Damaged("A name in it is no UTF-8") from error
