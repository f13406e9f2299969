"""Reads GGUF files, version 3: what they say about a model, and its weights as float32 arrays.

The layout is that of the GGUF specification (ggml project, docs/gguf.md): a header of typed key-value pairs,
a list of tensors, and their data. Weights are memory-mapped and decoded one tensor at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwise.models.binary import Cursor, Damaged, mapped, reading
from headwise.models.gguf_header import TensorEntry, read_header

_Fact = TypeVar("_Fact")


@dataclass(frozen=True)
class Storage:
    """How a tensor type keeps its numbers: ``values`` of them in each block."""

    name: str
    values: int
    block: np.dtype[Any]
    decode: Callable[[NDArray[Any]], NDArray[np.float32]]


def _plain(blocks: NDArray[Any]) -> NDArray[np.float32]:
    return blocks["values"].astype(np.float32)


def _scaled(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Q8_0: value = scale * q, with q from -128 to 127."""
    values: NDArray[np.float32] = blocks["scale"].astype(np.float32)[:, None] * blocks["quants"]
    return values


def _scaled_and_shifted(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Q4_1: value = scale * q + least, with q from 0 to 15; low halves of the bytes come first."""
    quants = np.concatenate([blocks["quants"] & 15, blocks["quants"] >> 4], axis=1)
    scale, least = (blocks[field].astype(np.float32)[:, None] for field in ("scale", "least"))
    values: NDArray[np.float32] = scale * quants + least
    return values


STORAGES = {
    0: Storage("F32", 1, np.dtype([("values", "<f4")]), _plain),
    1: Storage("F16", 1, np.dtype([("values", "<f2")]), _plain),
    3: Storage(
        "Q4_1", 32, np.dtype([("scale", "<f2"), ("least", "<f2"), ("quants", "u1", 16)]), _scaled_and_shifted
    ),
    8: Storage("Q8_0", 32, np.dtype([("scale", "<f2"), ("quants", "i1", 32)]), _scaled),
}


_EXPECTED = "a whole GGUF file of version 3 with weights in F32, F16, Q4_1 or Q8_0"


class GGUF:
    """An opened file: ``metadata`` by key, and ``tensor(name)``.

    Everything is checked when the file is opened: raises HeadwiseError if it is damaged or cut short, of
    another version, or holds a tensor of a type other than F32, F16, Q4_1 and Q8_0.

    >>> GGUF("no-such-file.gguf")
    Traceback (most recent call last):
    ...
    headwise.errors.HeadwiseError: model: the file must be a whole GGUF file of version 3 with weights \
in F32, F16, Q4_1 or Q8_0, got 'no-such-file.gguf'. No such file or directory. Install or fetch it again.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with reading(self.path, expected=_EXPECTED):
            self._bytes = mapped(self.path)
            self.metadata, entries, self._data = read_header(Cursor(self._bytes.data))
            self._entries = {entry.name: entry for entry in entries}
            for entry in entries:
                self._check(entry)

    @property
    def names(self) -> list[str]:
        """Of all tensors, in the order of the file."""
        return list(self._entries)

    def fact(self, key: str, kind: type[_Fact]) -> _Fact:
        """A value of the metadata. Raises HeadwiseError if it is missing or of another type."""
        value = self.metadata.get(key)
        with reading(self.path, expected=_EXPECTED):
            if not isinstance(value, kind):
                raise Damaged(f"Its {key} is {type(value).__name__}, not {kind.__name__}")
        return value

    def tensor(self, name: str) -> NDArray[np.float32]:
        """One tensor, decoded to float32, outermost axis first. Raises HeadwiseError if there is none."""
        with reading(self.path, expected=_EXPECTED):
            if name not in self._entries:
                raise Damaged(f"It has no tensor {name}")
        entry = self._entries[name]
        storage = STORAGES[entry.storage]
        count = math.prod(entry.shape) // storage.values
        blocks = np.frombuffer(self._bytes, storage.block, count, self._data + entry.offset)
        return storage.decode(blocks).reshape(entry.shape)

    def _check(self, entry: TensorEntry) -> None:
        storage = STORAGES.get(entry.storage)
        if storage is None:
            raise Damaged(f"Tensor {entry.name} is stored as type {entry.storage}, which is not read")
        if entry.shape[-1] % storage.values:
            raise Damaged(f"Tensor {entry.name} has rows of {entry.shape[-1]} in blocks of {storage.values}")
        size = math.prod(entry.shape) // storage.values * storage.block.itemsize
        if self._data + entry.offset + size > len(self._bytes):
            raise Damaged(f"It ends before tensor {entry.name} does")
