"""How a layer or model is called: with what, how often, along which axes, and what is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headwise.check.asking import raised, sequences
from headwise.check.subjects.outputs import Pick, in_words, picked
from headwise.check.subjects.signature import Thing
from headwise.check.subjects.subject import device_and_dtype


class NotThisWayError(Exception):
    """It cannot be called so: what came instead, in words."""


@dataclass(frozen=True)
class Convention:
    """Calls a thing with ``times`` times the same sequences and with ``fixed`` named arguments.

    >>> Convention(times=3)(lambda q, k, v: q + k + v, torch.ones(1, 1, 1))
    tensor([[[3.]]])
    """

    times: int = 1
    sequence_first: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)
    echoed: str | None = None
    """An argument that is given the sequences too, such as targets, with which some models answer in full."""
    pick: Pick | None = None

    def __call__(self, thing: Thing, x: Tensor, **more: Thing) -> Tensor:
        """The output ``[batch length ...]``."""
        output = self.raw(thing, x, **more)
        if self.pick is not None:
            return self._laid(self.pick(output))
        found = self._found(output, x)
        if found is None:
            raise NotThisWayError(in_words(output))
        return self._laid(found[0](output))

    def raw(self, thing: Thing, x: Tensor, **more: Thing) -> Thing:
        """Whatever it gives."""
        device, dtype = device_and_dtype(thing)
        x = x.to(device)
        x = x.transpose(0, 1) if self.sequence_first else x
        named = {**self.fixed, **more, **({self.echoed: x} if self.echoed else {})}
        return thing(
            *[x] * self.times, **{name: _moved(value, device, dtype) for name, value in named.items()}
        )

    def plain(self, thing: Thing, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
        """The output for the sequences alone."""
        return self(thing, x)

    def settled(self, thing: Thing, x: Tensor) -> tuple[Convention, list[str]]:
        """This convention with what is read from the output, and that in words; or NotThisWayError."""
        try:
            with torch.no_grad():
                output = self.raw(thing, x)
        except Exception as error:
            raise NotThisWayError(f"{raised(error)} for {sequences(x)}") from error
        found = self._found(output, x)
        if found is None:
            raise NotThisWayError(f"{in_words(output)} for {sequences(x)}")
        return replace(self, pick=found[0]), [found[1]] if found[1] else []

    def words(self, name: str) -> str:
        """The call, as Python writes it.

        >>> Convention(times=3, fixed={"need_weights": False}).words("module")
        'module(x, x, x, need_weights=False)'
        """
        named = [f"{key}={value!r}" for key, value in self.fixed.items()]
        named += [f"{self.echoed}=x"] if self.echoed else []
        return f"{name}({', '.join(['x'] * self.times + named)})"

    def _found(self, output: Thing, x: Tensor) -> tuple[Pick, str] | None:
        batch, length = x.shape[:2]
        return picked(output, length, batch) if self.sequence_first else picked(output, batch, length)

    def _laid(self, output: Tensor) -> Tensor:
        return (output.transpose(0, 1) if self.sequence_first else output).cpu()


def _moved(value: Thing, device: torch.device, dtype: torch.dtype) -> Thing:
    if not isinstance(value, Tensor):
        return value
    return value.to(device, dtype) if value.is_floating_point() else value.to(device)
