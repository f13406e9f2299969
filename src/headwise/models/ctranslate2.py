"""Reads the weights of a CTranslate2 model file (model.bin) as float32 tensors by name.

A version, the model's kind and its revision; then each weight with its name, its shape, a number for its
type, and its bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.models.binary import Cursor, Damaged, Weights, mapped, reading

EXPECTED = "a whole CTranslate2 model"
_TYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"),
    1: np.dtype("i1"),
    2: np.dtype("<i2"),
    3: np.dtype("<i4"),
    4: np.dtype("<f2"),
}


def read_ctranslate2(path: Path) -> Weights:
    """Every weight of the file. Raises HeadwiseError if it is missing, damaged or cut short."""
    with reading(path, expected=EXPECTED):
        cursor = Cursor(mapped(path).data)
        cursor.number("<I")
        _name(cursor)
        cursor.number("<I")
        return Weights(_weight(cursor) for _ in range(cursor.number("<I")))


def _name(cursor: Cursor) -> str:
    return cursor.text(cursor.number("<H")).removesuffix("\0")


def _weight(cursor: Cursor) -> tuple[str, Tensor]:
    name = _name(cursor)
    shape = [cursor.number("<I") for _ in range(cursor.number("<B"))]
    kind, size = cursor.number("<B"), cursor.number("<I")
    if kind not in _TYPES or size != int(np.prod(shape, dtype=object)) * _TYPES[kind].itemsize:
        raise Damaged(f"Weight {name} has type {kind}, shape {shape} and {size} bytes")
    values = np.frombuffer(cursor.take(size), _TYPES[kind]).astype(np.float32)
    return name, torch.from_numpy(values.reshape(shape))
