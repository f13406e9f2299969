"""Does a module stay itself when it is cast, saved, copied, or built without memory?"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwise.check.asking import MisbehavedError, ask, checked, raised
from headwise.check.comparing import distance
from headwise.check.inputs import Arguments, arguments
from headwise.check.report import Report, failed
from headwise.check.rounding import other_kernels, same_kernels

Step = Literal["cast", "save", "copy", "meta"]
STEPS: tuple[Step, ...] = ("cast", "save", "copy", "meta")

_CAUSES = {
    "cast": "Usually frequencies or positions in a buffer, which .to(dtype) rounds for good: compute them in "
    "float32 or better when they are needed, from numbers that are no buffers",
    "save": "Usually a tensor that is neither a parameter nor a persistent buffer: register what has a value "
    "of its own",
    "copy": "Usually state outside the module that copies share, or a tensor that deepcopy does not reach",
    "meta": "Usually a buffer that is not saved and is made in __init__: after to_empty nobody fills it "
    "again; compute it when it is needed, or save it",
}


@checked("lifecycle", do="Pass a callable that makes a module, and inputs it takes")
def lifecycle(
    make: Callable[[], nn.Module],
    inputs: Arguments,
    *,
    length: int = 400,
    steps: tuple[Step, ...] = STEPS,
    depth: int = 1,
) -> Report:
    """A module behaves the same after a cast and back, a save and load, a deep copy, and a start on "meta".

    ``make`` builds one with random weights, in evaluation. Cast: to bfloat16, and back to float32, rounds the
    parameters and must do no more harm than that, whatever the buffers hold. Save: the state dictionary
    loaded into a fresh instance. Copy: a deep copy, which must not change with the original. Meta: built on
    the meta device, emptied onto the CPU, filled from the state dictionary. A module that refuses to run in
    bfloat16, or to be built on the meta device, passes that part, and ``tried`` says so. The inputs should be
    long enough for a rounded frequency to matter.

    >>> from torch import nn
    >>> from headwise.check import Vectors, lifecycle
    >>> class Scaled(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.by = torch.randn(1)  # not in the state dictionary
    ...     def forward(self, x):
    ...         return x * self.by
    >>> print(lifecycle(Scaled, Vectors(4), length=5).failing)  # doctest: +ELLIPSIS
    after save and load into a fresh instance the output is ... off
    """
    tried: list[str] = []
    largest = (0.0, 0.0)
    given = arguments(inputs, length)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        module = _cast(_make(make), _dtype(given))
        output = ask(module, *given)
        for step in steps:
            worst, limit, words = _STEPS[step](make, module, given, output, depth)
            if not worst <= limit:
                words = words or f"{_WORDS[step]} the output is {worst:.2g} off"
                done, cause = ", ".join([*tried, step]), _CAUSES[step]
                return failed("lifecycle", worst, limit, tried=done, failing=words, cause=cause)
            tried.append(f"{step} ({words})" if words else step)
            largest = max(largest, (worst, limit))
    return Report("lifecycle", "holds", *largest, tried=", ".join(tried))


_Outcome = tuple[float, float, str]
"""The figure, its tolerance, and in words: what fails, or what was left out."""

_WORDS = {
    "cast": "after a cast to bfloat16 and back",
    "save": "after save and load into a fresh instance",
    "copy": "in a deep copy",
    "meta": "after a start on the meta device",
}


def _after_cast(
    make: Callable[[], nn.Module], module: nn.Module, given: tuple[Any, ...], output: Tensor, depth: int
) -> _Outcome:
    """Beside a module whose parameters alone were rounded: back in float32, and while in bfloat16."""
    given = tuple(_as(x, torch.float32) for x in given)
    original = _make(make).to(torch.float32)
    rounded = copy.deepcopy(original)
    for parameter in rounded.parameters():
        parameter.copy_(parameter.to(torch.bfloat16))
    cast = copy.deepcopy(original).to(torch.bfloat16)
    low = tuple(_as(x, torch.bfloat16) for x in given)
    aside = ""
    try:
        got = ask(cast, *low)
    except MisbehavedError as error:
        aside = f"and back; while in bfloat16 {error}"
    else:
        right = ask(rounded, *(_as(x, torch.float32) for x in low))
        worst, limit = _apart(got, right), other_kernels(right.to(torch.bfloat16), _terms(given), depth)
        if not worst <= limit:
            return worst, limit, f"while in bfloat16 the output is {worst:.2g} off"
    right = ask(rounded, *given)
    worst = _apart(ask(cast.to(torch.float32), *given), right)
    limit = same_kernels(right.to(torch.bfloat16))  # a rounded buffer rounds the output alike
    return worst, limit, aside if worst <= limit else ""


def _after_save(
    make: Callable[[], nn.Module], module: nn.Module, given: tuple[Any, ...], output: Tensor, depth: int
) -> _Outcome:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    fresh = _cast(_make(make), _dtype(given))
    try:
        fresh.load_state_dict(torch.load(file, weights_only=True))
    except Exception as error:
        return torch.inf, 0.0, f"its state does not load into a fresh instance: {raised(error)}"
    return _apart(ask(fresh, *given), output), same_kernels(output), ""


def _after_copy(
    make: Callable[[], nn.Module], module: nn.Module, given: tuple[Any, ...], output: Tensor, depth: int
) -> _Outcome:
    limit = same_kernels(output)
    try:
        original = copy.deepcopy(module)
        twin = copy.deepcopy(original)
    except Exception as error:
        return torch.inf, 0.0, f"it cannot be copied: {raised(error)}"
    worst = _apart(ask(twin, *given), output)
    for parameter in original.parameters():
        parameter.zero_()
    ask(original, *given)
    after = _apart(ask(twin, *given), output)
    if worst <= limit < after:
        return after, limit, f"a deep copy changes with the original: the output is {after:.2g} off"
    return worst, limit, ""


def _after_meta(
    make: Callable[[], nn.Module], module: nn.Module, given: tuple[Any, ...], output: Tensor, depth: int
) -> _Outcome:
    """Whatever the state dictionary does not fill is not-a-number, or 0 among whole numbers."""
    try:
        with torch.device("meta"):
            empty = make()
    except Exception as error:
        return 0.0, 0.0, f"refused: {raised(error)}"
    module_dtype = _cast(empty, _dtype(given)).to_empty(device="cpu")
    for tensor in (*module_dtype.parameters(), *module_dtype.buffers()):
        tensor.fill_(torch.nan if tensor.is_floating_point() else 0)
    module_dtype.load_state_dict(module.state_dict())
    return _apart(ask(module_dtype.eval(), *given), output), same_kernels(output), ""


_STEPS = {"cast": _after_cast, "save": _after_save, "copy": _after_copy, "meta": _after_meta}


def _make(make: Callable[[], nn.Module]) -> nn.Module:
    try:
        module = make()
    except Exception as error:
        raise MisbehavedError(f"making one raises {raised(error)}") from error
    if not isinstance(module, nn.Module):
        raise MisbehavedError(f"making one gives {type(module).__name__} where a module was asked for")
    return module.eval()


def _dtype(given: tuple[Any, ...]) -> torch.dtype:
    found = [x.dtype for x in given if isinstance(x, Tensor) and x.is_floating_point()]
    return found[0] if found else torch.float32


def _cast(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    return module if dtype == torch.float32 else module.to(dtype)


def _as(x: object, dtype: torch.dtype) -> object:
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


def _apart(got: Tensor, right: Tensor) -> float:
    if got.shape != right.shape:
        raise MisbehavedError(f"it gives {list(got.shape)} where {list(right.shape)} was asked for")
    return float(distance(got, right).max())


def _terms(given: tuple[Any, ...]) -> int:
    return max((number for x in given if isinstance(x, Tensor) for number in x.shape[-2:]), default=1)
