"""Reads the float32 weights of an ONNX file, and which matrix product uses which.

ONNX files are protocol buffers: each field is a number, a kind of wire, and a value (Protocol Buffers,
"Encoding"; field numbers from onnx.proto). No graph runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headwise.models.binary import Cursor, Damaged, mapped, reading

EXPECTED = "a whole ONNX model with its weights inside"
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_WEIGHT = 1, 5
_NODE_INPUT, _NODE_NAME, _NODE_OPERATION = 1, 3, 4
_WEIGHT_AXIS, _WEIGHT_TYPE, _WEIGHT_NAME, _WEIGHT_BYTES = 1, 2, 8, 9
_FLOAT32 = 1


@dataclass(frozen=True)
class OnnxWeights:
    """``weights`` by name, and for each weight on the right of a matrix product the product's path."""

    weights: dict[str, Tensor] = field(default_factory=dict)
    products: dict[str, str] = field(default_factory=dict)

    def one(self, beginning: str) -> Tensor:
        """The first weight whose name starts so. Raises Damaged if there is none."""
        for name, weight in self.weights.items():
            if name.startswith(beginning):
                return weight
        raise Damaged(f"It has no weight {beginning}")


def read_onnx(path: Path) -> OnnxWeights:
    """The file's weights. Raises HeadwiseError if it is missing, damaged or cut short."""
    found = OnnxWeights()
    with reading(path, expected=EXPECTED):
        for number, graph in _fields(mapped(path).data):
            if number == _MODEL_GRAPH:
                for part, content in _fields(graph):
                    if part == _GRAPH_WEIGHT:
                        found.weights.update(_weight(content))
                    elif part == _GRAPH_NODE:
                        found.products.update(_product(content))
    return found


def _fields(message: object) -> Iterator[tuple[int, memoryview | int]]:
    """The fields of a message: bytes as a view, whole numbers as they are."""
    if not isinstance(message, memoryview):
        raise Damaged("A part of it is no message")
    cursor = Cursor(message)
    while cursor.place < len(message):
        tag = _varint(cursor)
        wire = tag & 7
        if wire == _BYTES:
            yield tag >> 3, cursor.take(_varint(cursor))
        elif wire == _VARINT:
            yield tag >> 3, _varint(cursor)
        elif wire in (_FOUR_BYTES, _EIGHT_BYTES):
            cursor.take(4 if wire == _FOUR_BYTES else 8)
        else:
            raise Damaged(f"It has a field of the unknown kind {wire}")


def _varint(cursor: Cursor) -> int:
    """Seven bits a byte, lowest first; the highest bit says that more follow."""
    value = 0
    for place in range(10):
        byte: int = cursor.number("B")
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value
    raise Damaged("A number in it does not end")


def _weight(message: object) -> dict[str, Tensor]:
    shape, name, kind, data = [], "", 0, memoryview(b"")
    for number, value in _fields(message):
        if isinstance(value, int):
            if number == _WEIGHT_AXIS:
                shape.append(value)
            elif number == _WEIGHT_TYPE:
                kind = value
        elif number == _WEIGHT_NAME:
            name = _text(value)
        elif number == _WEIGHT_BYTES:
            data = value
    if kind != _FLOAT32:  # whole numbers are shapes and places, not weights
        return {}
    if len(data) != 4 * int(np.prod(shape, dtype=object)):
        raise Damaged(f"Weight {name} has shape {shape} and {len(data)} bytes")
    return {name: torch.from_numpy(np.frombuffer(data, "<f4").astype(np.float32).reshape(shape))}


def _product(message: object) -> dict[str, str]:
    inputs, name, operation = [], "", ""
    for number, value in _fields(message):
        if isinstance(value, memoryview):
            if number == _NODE_INPUT:
                inputs.append(_text(value))
            elif number == _NODE_NAME:
                name = _text(value)
            elif number == _NODE_OPERATION:
                operation = _text(value)
    return {inputs[1]: name} if operation == "MatMul" and len(inputs) > 1 else {}


def _text(value: memoryview) -> str:
    return Cursor(value).text(len(value))
