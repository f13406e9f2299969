"""The header of a GGUF file: typed key-value pairs and the list of tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from headwise.models.binary import Cursor, Damaged

MAGIC, VERSION = b"GGUF", 3
TEXT, ARRAY = 8, 9
SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
MOST_AXES = 4


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies: bytes from the start of the data, in the storage type of that number."""

    name: str
    shape: tuple[int, ...]
    storage: int
    offset: int


def read_header(cursor: Cursor) -> tuple[dict[str, Any], list[TensorEntry], int]:
    """The metadata, the tensors, and the byte at which their data starts. Raises Damaged.

    >>> read_header(Cursor(b"GGUF" + struct.pack("<IQQ", 3, 0, 0)))
    ({}, [], 32)
    """
    if bytes(cursor.view[:4]) != MAGIC:
        raise Damaged("It does not start with the letters GGUF")
    cursor.take(4)
    if (version := cursor.number("<I")) != VERSION:
        raise Damaged(f"It is of version {version}")
    tensors, pairs = cursor.number("<Q"), cursor.number("<Q")
    metadata = {}
    for _ in range(pairs):
        key = _text(cursor)
        metadata[key] = _value(cursor, cursor.number("<I"))
    entries = [_entry(cursor) for _ in range(tensors)]
    if len({entry.name for entry in entries}) < len(entries):
        raise Damaged("Two of its tensors have the same name")
    return metadata, entries, _data_start(cursor.place, metadata.get("general.alignment", 32))


def _text(cursor: Cursor) -> str:
    return cursor.text(cursor.number("<Q"))


def _value(cursor: Cursor, kind: int) -> Any:  # noqa: ANN401 - whatever type the file names
    if kind == TEXT:
        return _text(cursor)
    if kind == ARRAY:
        return _array(cursor, cursor.number("<I"), cursor.number("<Q"))
    if kind not in SCALARS:
        raise Damaged(f"Its header has a value of the unknown type {kind}")
    return cursor.number(SCALARS[kind])


def _array(cursor: Cursor, kind: int, count: int) -> list[Any]:
    if kind == TEXT:
        return [_text(cursor) for _ in range(count)]
    if kind not in SCALARS:
        raise Damaged(f"Its header has an array of type {kind}, which is not read")
    size = count * struct.calcsize(SCALARS[kind])
    return list(struct.unpack(f"<{count}{SCALARS[kind][1]}", cursor.take(size)))


def _entry(cursor: Cursor) -> TensorEntry:
    name, axes = _text(cursor), cursor.number("<I")
    if not 1 <= axes <= MOST_AXES:
        raise Damaged(f"Tensor {name} has {axes} axes")
    innermost_first = [cursor.number("<Q") for _ in range(axes)]
    if 0 in innermost_first:
        raise Damaged(f"Tensor {name} is empty")
    return TensorEntry(name, tuple(innermost_first[::-1]), cursor.number("<I"), cursor.number("<Q"))


def _data_start(place: int, alignment: object) -> int:
    if not isinstance(alignment, int) or alignment < 1:
        raise Damaged(f"Its alignment is {alignment}")
    return -(-place // alignment) * alignment
