"""Asks the thing under test, and says in one line why it cannot be asked, so that no property crashes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from headwise.check.report import Report, not_checked
from headwise.check.rounding import largest, same_kernels
from headwise.core.shapes import described

P = ParamSpec("P")
F = TypeVar("F")


class CannotBeCheckedError(Exception):
    """Why a property could not be checked, and what to pass; `checked` turns it into a report."""

    def __init__(self, why: str, do: str = "") -> None:
        self.why, self.do = why, do
        super().__init__(why)


class MisbehavedError(CannotBeCheckedError):
    """The thing under test raised on an input that looks valid, or gave something else than was asked for."""


def checked(name: str, do: str = "") -> Callable[[Callable[P, Report]], Callable[P, Report]]:
    """Makes a property say "not checked" where the thing under test cannot be asked.

    ``do`` says what to pass, where the error itself does not know.

    >>> @checked("causality")
    ... def property_of(f):
    ...     asked(f, torch.zeros(2, 3, 4))
    >>> print(property_of(lambda x: (x, x)))
    causality not checked: it gives a tuple of 2, not a tensor.
      Pass a function that picks the tensor out, such as lambda x: f(x)[0].
    """

    def decorate(check: Callable[P, Report]) -> Callable[P, Report]:
        @wraps(check)
        def run(*args: P.args, **kwargs: P.kwargs) -> Report:
            try:
                return check(*args, **kwargs)
            except CannotBeCheckedError as error:
                return not_checked(name, why=error.why, do=error.do or do)

        return run

    return decorate


def ask(
    f: Callable[..., object],
    *given: object,
    shape: torch.Size | tuple[int, ...] | None = None,
    name: str = "it",
) -> Tensor:
    """The tensor that ``f`` gives, of that shape; MisbehavedError if it raises or gives anything else.

    >>> ask(torch.exp, torch.zeros(2), shape=(2,))
    tensor([1., 1.])
    >>> ask(torch.exp, "zero", name="exp")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    headwise.check.asking.MisbehavedError: exp raises TypeError (exp(): argument 'input' ...
    """
    try:
        output = f(*given)
    except Exception as error:
        raise MisbehavedError(f"{name} raises {raised(error)}") from error
    if not isinstance(output, Tensor):
        raise MisbehavedError(f"{name} gives {type(output).__name__} where a tensor was asked for")
    if shape is not None and output.shape != shape:
        raise MisbehavedError(f"{name} gives {described(output)} where {list(shape)} was asked for")
    return output


@torch.no_grad()
def asked(f: Callable[..., object], x: Tensor, *rest: object, finite: bool = True) -> Tensor:
    """The output ``[batch length ...]`` of ``f(x, *rest)``, a copy; ``f`` gets a copy of ``x`` too.

    >>> asked(lambda x: x + 1, torch.zeros(1, 2, 1)).flatten()
    tensor([1., 1.])
    """
    output = given(f, x, *rest)
    problem = _problem(output, x)
    if problem is not None:
        raise MisbehavedError(*problem)
    assert isinstance(output, Tensor)
    if finite and not bool(output.isfinite().all()):
        row, place = (int(i) for i in (~output.isfinite()).nonzero()[0, :2])
        raise CannotBeCheckedError(
            f"its output at {place} of row {row} is not a finite number, for {sequences(x)}",
            "Look there first, with inputs as a trained model sees them",
        )
    return output.detach().clone()


def given(f: Callable[..., object], x: Tensor, *rest: object) -> object:
    """Whatever ``f`` gives, or MisbehavedError with the type and first line of what it raises."""
    try:
        return f(x.clone(), *rest)
    except Exception as error:
        raise MisbehavedError(
            f"it raises {raised(error)}, for {sequences(x)}",
            "Pass a function that takes such sequences, or change inputs= or the lengths tried",
        ) from error


def made(maker: Callable[[], F], name: str) -> F:
    """What a maker without arguments makes, or CannotBeCheckedError with what it raises.

    >>> made(lambda: torch.exp, "start")(torch.zeros(1))
    tensor([1.])
    """
    try:
        return maker()
    except Exception as error:
        raise CannotBeCheckedError(
            f"{name} raises {raised(error)}", "Pass a function without arguments that makes a fresh one"
        ) from error


def refuse_unsteady(f: Callable[..., object], x: Tensor, *rest: object) -> None:
    """Refuse what gives two answers to one input, since no comparison would say anything.

    >>> refuse_unsteady(lambda x: x + 1, torch.zeros(1, 2, 1))
    """
    first, second = asked(f, x, *rest, finite=False), asked(f, x, *rest, finite=False)
    apart = largest(second - first)
    if apart <= same_kernels(first):
        return
    raise CannotBeCheckedError(
        f"two calls with one input differ by {apart / (largest(first) or 1.0):.2g} of the largest output",
        "Turn dropout off with .eval(), and start each call from a fresh state",
    )


def raised(error: Exception) -> str:
    """The type and the first line of an exception, and the second where the first only announces it.

    >>> raised(ValueError("too long" + chr(10) + "by far"))
    'ValueError (too long)'
    >>> raised(ValueError("Errors:" + chr(10) + chr(9) + "size mismatch"))
    'ValueError (Errors: size mismatch)'
    """
    lines = [line.strip() for line in str(error).strip().splitlines()]
    line = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])[:160].rstrip(". ")
    return f"{type(error).__name__} ({line})" if line else type(error).__name__


def sequences(x: Tensor) -> str:
    """How many sequences of which kind, in words.

    >>> sequences(torch.zeros(2, 3, 4)), sequences(torch.zeros(1, 1).long())
    ('2 sequences of 3 float32 vectors of 4', '1 sequence of 1 token')
    """
    many, length = f"{x.shape[0]} sequence{'s' * (x.shape[0] != 1)}", x.shape[1]
    plural = "s" * (length != 1)
    if not x.is_floating_point():
        return f"{many} of {length} token{plural}"
    dtype = str(x.dtype).removeprefix("torch.")
    return f"{many} of {length} {dtype} vector{plural} of {x.shape[-1]}"


def _problem(output: object, x: Tensor) -> tuple[str, str] | None:
    if isinstance(output, tuple | list):
        many = f"{type(output).__name__} of {len(output)}"
        return (
            f"it gives a {many}, not a tensor",
            "Pass a function that picks the tensor out, such as lambda x: f(x)[0]",
        )
    if not isinstance(output, Tensor):
        return (
            f"it gives {type(output).__name__}, not a tensor",
            "Pass a function that picks the tensor out, such as lambda x: f(x).logits",
        )
    if output.shape[:2] != x.shape[:2]:
        return (
            f"it gives shape {list(output.shape)} for {sequences(x)}",
            f"Pass a function that gives [{x.shape[0]}, {x.shape[1]}, ...], an output for each place",
        )
    if not output.is_floating_point():
        return (
            f"it gives {str(output.dtype).removeprefix('torch.')}",
            "Pass a function that gives scores or vectors",
        )
    return None
