"""Is dropout off in evaluation, on in training, and driven by the seed?"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headwise.check.asking import MisbehavedError, ask, checked
from headwise.check.comparing import distance
from headwise.check.inputs import Arguments, arguments
from headwise.check.report import Report, failed, judged
from headwise.check.rounding import same_kernels

UNSTEADY = "two calls in evaluation"
"""How the failure begins that leaves no answer to compare."""

_CAUSE = (
    "Usually a functional dropout that is not told about training (its default is on), a rate that is stored "
    "and not handed on, or a generator of its own: look at every call of dropout and at dropout_p"
)


@checked("evaluation", do="Pass inputs that fit, or training= beside a function")
def evaluation(
    f: Callable[..., Any],
    inputs: Arguments,
    *,
    drops: bool | None = None,
    training: Callable[..., Any] | None = None,
    length: int = 12,
) -> Report:
    """Two calls in evaluation are equal; in training dropout acts, and repeats with the seed.

    ``f`` is a module, which is switched between the two, or the function in evaluation with ``training``, the
    function in training. ``drops`` claims that dropout acts in training (or that it does not); without it
    only the rest is checked. A module that holds ``nn.Dropout`` is also run with a rate of 1, which must not
    give not-a-number. The state of the random generator, and the module's mode, are left as they were.

    >>> from torch import nn
    >>> from headwise.check import Vectors, evaluation
    >>> evaluation(nn.Dropout(0.5), Vectors(8), drops=True).verdict
    'holds'
    >>> evaluation(lambda x: nn.functional.dropout(x, 0.5), Vectors(8)).failing  # doctest: +ELLIPSIS
    'two calls in evaluation are ... apart'
    """
    given = arguments(inputs, length)
    train = training
    if isinstance(f, nn.Module):
        original, f = f, copy.deepcopy(f).eval()
        train = copy.deepcopy(original).train()
    tried = UNSTEADY + ("" if train is None else ", three in training")
    with torch.random.fork_rng(), torch.no_grad():
        worst, limit, failing = _examine(f, train, given, drops)
        if not failing and isinstance(train, nn.Module):
            failing = _at_one(train, given)
    if not failing:
        return judged("evaluation", worst, limit, tried=tried, failing="", cause=_CAUSE)
    return failed("evaluation", worst, limit, tried=tried, failing=failing, cause=_CAUSE)


def _examine(
    f: Callable[..., Any], train: Callable[..., Any] | None, given: tuple[Any, ...], drops: bool | None
) -> tuple[float, float, str]:
    """The figure, its tolerance, and what fails in words."""
    first, second = (_seeded(f, given, seed) for seed in (0, 1))
    limit, worst = same_kernels(first), _apart(first, second)
    if not worst <= limit:
        return worst, limit, f"{UNSTEADY} are {worst:.2g} apart"
    if train is None:
        return worst, limit, ""
    one, again, other = (_seeded(train, given, seed) for seed in (0, 0, 1))
    limit = max(limit, same_kernels(one))
    if not (repeated := _apart(one, again)) <= limit:
        return repeated, limit, f"two calls in training with the same seed are {repeated:.2g} apart"
    acts = max(_apart(one, other), 0.0)
    if drops and acts <= limit:
        same = "as in evaluation" if _apart(one, first) <= limit else "every time"
        return acts, limit, f"dropout drops nothing new in training: two seeds give the same output, {same}"
    if drops is False and not (change := max(acts, _apart(one, first))) <= limit:
        return change, limit, f"training changes the output by {change:.2g}, where no dropout is claimed"
    return max(worst, repeated), limit, ""


def _at_one(train: nn.Module, given: tuple[Any, ...]) -> str:
    """What becomes of a module whose every dropout drops everything, in words if it is bad."""
    found = [module for module in train.modules() if isinstance(module, nn.Dropout)]
    for module in found:
        module.p = 1.0
    if not found or ask(train, *given).isfinite().all():
        return ""
    return "with a dropout rate of 1 the output is not finite"


def _seeded(f: Callable[..., Any], given: tuple[Any, ...], seed: int) -> Tensor:
    torch.manual_seed(seed)
    return ask(f, *given)


def _apart(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape:
        raise MisbehavedError(f"it gives {list(a.shape)}, then {list(b.shape)}")
    return float(distance(a, b).max()) if bool(a.isfinite().all() and b.isfinite().all()) else torch.inf
