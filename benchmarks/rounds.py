"""Times modules in interleaved rounds, so that whatever else the machine does hits all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

import torch
from peers import Contender
from torch import Tensor

Clock = Callable[[], float]


class Spread(NamedTuple):
    """The median of the rounds and the quartiles around it."""

    low: float
    median: float
    high: float


class Timing(NamedTuple):
    """Seconds of one call, and its ratio to the bare module's time in the same round."""

    seconds: Spread
    ratio: Spread


def differences(contenders: list[Contender], x: Tensor) -> dict[str, float]:
    """How far each module that should equal the first is from it, over the largest output."""
    with torch.no_grad():
        expected = contenders[0].call(x)
        found = {}
        for contender in contenders:
            output = contender.call(x)
            if output.shape != expected.shape:
                found[contender.name] = float("inf")
            elif contender.same_as_bare:
                found[contender.name] = float((output - expected).abs().max() / expected.abs().max())
        return found


def forward_times(contenders: list[Contender], x: Tensor, rounds: int, clock: Clock) -> dict[str, Timing]:
    """Forward alone, without gradients."""

    def once(contender: Contender) -> float:
        started = clock()
        contender.call(x)
        return clock() - started

    with torch.no_grad():
        return _interleaved(contenders, once, rounds)


def training_times(contenders: list[Contender], x: Tensor, rounds: int, clock: Clock) -> dict[str, Timing]:
    """Forward and backward, with gradients to the weights and to the input."""
    x = x.clone().requires_grad_()
    gradient = torch.randn_like(x)

    def once(contender: Contender) -> float:
        contender.module.zero_grad(set_to_none=True)
        x.grad = None
        started = clock()
        contender.call(x).backward(gradient)
        return clock() - started

    return _interleaved(contenders, once, rounds)


def _interleaved(
    contenders: list[Contender], once: Callable[[Contender], float], rounds: int
) -> dict[str, Timing]:
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for round_number in range(rounds + 1):
        turned = round_number % len(contenders)  # nobody always follows the same neighbour from the start
        for contender in contenders[turned:] + contenders[:turned]:
            seconds[contender.name].append(once(contender))
    kept = {name: times[1:] for name, times in seconds.items()}  # the first round warms up
    bare = kept[contenders[0].name]
    return {
        name: Timing(_spread(times), _spread([a / b for a, b in zip(times, bare, strict=True)]))
        for name, times in kept.items()
    }


def _spread(values: list[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, statistics.median(values), high)


def torch_path(contender: Contender, x: Tensor, grad: bool) -> str:
    """Which implementation ``torch.nn.MultiheadAttention`` chose: its own, or the fused kernel."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen, torch.set_grad_enabled(grad):
        contender.call(x)
    names = {event.key for event in seen.key_averages()}
    return "its native path" if "aten::_native_multi_head_attention" in names else "the fused kernel"
