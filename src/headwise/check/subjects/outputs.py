"""Finds the one tensor among what a layer or model gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Pick = Callable[[Any], Tensor]


def picked(output: object, batch: int, length: int) -> tuple[Pick, str] | None:
    """How to get the output ``[batch length ...]`` from what was given, and in words, if it is there.

    >>> import torch
    >>> pick, words = picked((torch.zeros(2, 3, 4), None), batch=2, length=3)
    >>> words
    'the first entry of a tuple of 2 is read'
    >>> picked((torch.zeros(2, 9),), batch=2, length=3) is None
    True
    """

    def fits(value: object) -> bool:
        return isinstance(value, Tensor) and value.shape[:2] == (batch, length) and value.is_floating_point()

    if fits(output):
        return (lambda given: given), ""
    if isinstance(output, Mapping):
        names = [*(name for name in ("logits", "last_hidden_state") if name in output), *output]
        name = next((name for name in names if fits(output[name])), None)
        return None if name is None else ((lambda given: given[name]), f"{name} is read from the output")
    if isinstance(output, tuple | list):
        index = next((index for index, value in enumerate(output) if fits(value)), None)
        if index is None:
            return None
        ordinal = ("first", "second", "third")[index] if index < 3 else f"{index + 1}th"
        words = f"the {ordinal} entry of a {type(output).__name__} of {len(output)} is read"
        return (lambda given: given[index]), words
    return None


def in_words(output: object) -> str:
    """What a thing gave, for a message.

    >>> import torch
    >>> in_words((torch.zeros(2, 9), None))
    'a tuple of [2, 9] and None'
    """
    if isinstance(output, Tensor):
        return f"{str(output.dtype).removeprefix('torch.')} of shape {list(output.shape)}"
    if isinstance(output, Mapping):
        return f"{type(output).__name__} with {', '.join(map(str, output)) or 'nothing'}"
    if isinstance(output, tuple | list):
        inside = [str(list(x.shape)) if isinstance(x, Tensor) else type(x).__name__ for x in output]
        inside = [word.replace("NoneType", "None") for word in inside]
        return f"a {type(output).__name__} of {' and '.join(inside) or 'nothing'}"
    return type(output).__name__
