"""A thing under test, and the ways it can be called."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwise.check.claims import Claims
from headwise.check.inputs import Inputs
from headwise.check.subjects.signature import Thing

Call = Callable[[Any, Tensor, Tensor | None, Tensor | None], Tensor]
"""Takes the thing, sequences, keep ``[batch length]`` and positions or None; gives ``[batch length ...]``."""

Way = Callable[[Any, Tensor], Tensor]

LENGTH = 6  # of the sequences with which a call is found out
_TRAINED = ("max_position_embeddings", "n_positions", "block_size", "max_seq_len", "max_length", "max_len")
_TRIED = 600  # places; a longer one takes too long to go beyond
ROUTED = re.compile(r"expert|moe|router", re.IGNORECASE)
RECURRENT = re.compile(r"mamba|recurren|ssm|rwkv|delta|lstm|retention", re.IGNORECASE)
_COPIED = 50_000_000  # numbers; a larger module is not copied for every question


@dataclass
class Subject:
    """What properties need to know: how to call it, with what, and what could not be found out.

    ``ways`` are other ways to ask the same question, whose answers must agree; ``masked`` are ways to ask for
    a causal answer, which must be causal. ``questions`` names properties that cannot be checked, each with
    the reason and what to pass.
    """

    name: str
    thing: Thing
    inputs: Inputs
    call: Call
    assumed: list[str] = field(default_factory=list)
    takes_keep: bool = False
    takes_positions: bool = False
    start: Callable[[Any], Callable[..., Tensor]] | None = None
    steps_keep: bool = False
    make: Callable[[], Any] | None = None
    ways: dict[str, Way] = field(default_factory=dict)
    masked: dict[str, Way] = field(default_factory=dict)
    attend: Callable[..., Tensor] | None = None
    true_means: Literal["visible", "hidden"] | None = None
    questions: dict[str, tuple[str, str]] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)
    caches: bool = True
    lives: tuple[Any, ...] = ("cast", "save", "copy", "meta")
    layers: int = 1
    window: int | None = None
    longest: int | None = None
    claimed: Claims | None = None
    groups: tuple[str, ...] = ()
    calls: int = 0

    def __post_init__(self) -> None:
        self.untouched = copied(self.thing)

    def of(self, thing: Thing) -> Callable[..., Tensor]:
        """``f(x, keep=None, positions=None)`` for that instance, counted."""

        def f(x: Tensor, keep: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
            self.calls += 1
            return self.call(thing, x, keep, positions)

        return f

    def way(self, way: Way) -> Callable[[Tensor], Tensor]:
        """One of the other ways as a function of sequences, counted."""

        def f(x: Tensor) -> Tensor:
            self.calls += 1
            return way(self.thing, x)

        return f

    @property
    def f(self) -> Callable[..., Tensor]:
        """``f(x, keep=None, positions=None)``."""
        return self.of(self.thing)

    @property
    def fresh(self) -> Callable[[], Callable[..., Tensor]] | None:
        """Makes an instance that has never been called, if it can be copied."""
        untouched = self.untouched
        if not isinstance(untouched, nn.Module):
            return None
        return lambda: self.of(copy.deepcopy(untouched))

    def has(self, kind: re.Pattern[str]) -> bool:
        """Whether a module inside is named so by its class."""
        thing = self.thing
        return isinstance(thing, nn.Module) and any(
            kind.search(type(each).__name__) for each in thing.modules()
        )

    @property
    def depth(self) -> int:
        """The number of layers as rounding sees it: one for every four matrices."""
        if not isinstance(self.thing, nn.Module):
            return 1
        matrices = sum(parameter.dim() >= 2 for parameter in self.thing.parameters())
        return max(self.layers, -(-matrices // 4), 1)

    @property
    def trained(self) -> int | None:
        """The length it was made for, as it says itself, where that is short enough to try."""
        for holder in (self.thing, getattr(self.thing, "config", None)):
            for name in _TRAINED:
                value = getattr(holder, name, None)
                if isinstance(value, int) and LENGTH < value <= _TRIED:
                    return value
        return None

    def fitting(self, *lengths: int, room: int = 0) -> tuple[int, ...]:
        """Those of the lengths that it takes, with ``room`` more places."""
        longest = self.longest
        return lengths if longest is None else tuple(n for n in lengths if n + room <= longest)


class Called(nn.Module):
    """A module that is called as its subject says, and gives a tensor."""

    def __init__(self, thing: nn.Module, call: Call) -> None:
        super().__init__()
        self.thing, self._call = thing, call

    def forward(self, x: Tensor) -> Tensor:
        return self._call(self.thing, x, None, None)


def copied(thing: Thing) -> Thing:
    """A copy of a module in evaluation, where it is small enough and can be copied; else None."""
    if not isinstance(thing, nn.Module) or numbers(thing) > _COPIED:
        return None
    try:
        return copy.deepcopy(thing).eval()
    except Exception:  # whatever a foreign module raises
        return None


def numbers(thing: object) -> int:
    """How many numbers the parameters of a module hold; none where it is no module.

    >>> numbers(nn.Linear(2, 3)), numbers(len)
    (9, 0)
    """
    return sum(each.numel() for each in thing.parameters()) if isinstance(thing, nn.Module) else 0


def device_and_dtype(thing: object) -> tuple[torch.device, torch.dtype]:
    """Where a module's numbers are, and in which precision.

    >>> device_and_dtype(nn.Linear(2, 2))
    (device(type='cpu'), torch.float32)
    """
    if isinstance(thing, nn.Module):
        for parameter in thing.parameters():
            if parameter.is_floating_point():
                return parameter.device, parameter.dtype
    return torch.device("cpu"), torch.float32
