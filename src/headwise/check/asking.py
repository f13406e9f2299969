"""Calls a thing under test, and says in one line what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headwise.check.inputs import Inputs
from headwise.check.report import Report, not_checked
from headwise.core.shapes import described

Arguments = Inputs | Callable[[int], tuple[Any, ...]]
"""Sequences of a length, or a function that gives the arguments of a call of some size."""


class MisbehavedError(Exception):
    """A thing under test raised, or gave something other than it was asked for."""

    def report(self, name: str, do: str) -> Report:
        """The report of a property that could not be checked for that reason."""
        return not_checked(name, why=str(self), do=do)


def arguments(inputs: Arguments, size: int) -> tuple[Any, ...]:
    """What to call a function with, for an input of that size.

    >>> arguments(lambda heads: (heads, "halves"), 3)
    (3, 'halves')
    """
    return inputs(size) if callable(inputs) else (inputs.make(2, size, seed=0),)


def ask(
    f: Callable[..., Any], *given: object, shape: torch.Size | tuple[int, ...] | None = None, name: str = "it"
) -> Tensor:
    """The tensor that ``f`` gives; MisbehavedError, in one line, if it raises or gives anything else.

    >>> ask(torch.exp, torch.zeros(2), shape=(2,))
    tensor([1., 1.])
    >>> ask(torch.exp, "zero", name="exp")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    headwise.check.asking.MisbehavedError: exp raised TypeError: exp(): argument 'input' ...
    """
    try:
        output = f(*given)
    except Exception as error:
        raise MisbehavedError(f"{name} raised {one_line(error)}") from error
    if not isinstance(output, Tensor):
        raise MisbehavedError(f"{name} gave {type(output).__name__} where a tensor was asked for")
    if shape is not None and output.shape != shape:
        raise MisbehavedError(f"{name} gave {described(output)} where {list(shape)} was asked for")
    return output


def one_line(error: BaseException) -> str:
    """The kind of an error and the first line of its message.

    >>> one_line(ValueError("too long\\nand more"))
    'ValueError: too long'
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160].rstrip('.')}" if lines else type(error).__name__


def place(apart: Tensor) -> tuple[float, tuple[int, ...]]:
    """The largest number and where it stands.

    >>> place(torch.tensor([[0.0, 1.0], [3.0, 2.0]]))
    (3.0, (1, 0))
    """
    index = int(apart.argmax())
    where = tuple(int(number) for number in torch.unravel_index(torch.tensor(index), apart.shape))
    return float(apart[where]), where


def distance(a: Tensor, b: Tensor) -> Tensor:
    """How far apart two tensors are, element by element; infinity where one alone is not-a-number.

    >>> inf = torch.inf
    >>> distance(torch.tensor([1.0, inf, torch.nan]), torch.tensor([3.0, inf, 0.0]))
    tensor([2., 0., inf], dtype=torch.float64)
    """
    a, b = a.detach().double(), b.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())
    return (a - b).abs().masked_fill(same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
