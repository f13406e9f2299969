"""Puts another output into a running model, in the place of the one that an attention call computed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor
from torch.utils import checkpoint
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from headwise.core import HeadwiseError
from headwise.look.calls.call import AttentionCall

# gives another output for a call, [batch heads query value_dim], or None to leave it
Change = Callable[[AttentionCall], Tensor | None]


@dataclass(frozen=True, eq=False)
class Spot:
    """Where an output stands in its model, and what may keep it from being changed.

    From ``batch heads query value_dim`` to ``arranged`` is a reshape, for no layout moves an element, and
    then ``order`` puts the axes as an einsum had them.

    >>> spot = Spot(torch.zeros(2, 3, 4, 8), arranged=(2, 4, 3, 8), order=(0, 2, 1, 3))
    >>> x = torch.ones(2, 4, 3, 8)
    >>> spot.put(x, AttentionCall(x, x, x, x, scale=1.0)).shape
    torch.Size([2, 3, 4, 8])
    """

    output: Tensor
    arranged: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    wrapped: bool = False  # by torch.vmap or torch.func
    late: bool = False  # the model has gone on already
    into: Tensor | None = None  # what ``out=`` named, which the model may go on with

    def put(self, changed: Tensor, call: AttentionCall) -> Tensor:
        """The changed output as the model has it: the same type, dtype, axes and strides.

        Raises HeadwiseError if it has another shape than the call's output, or cannot be put there.
        """
        if changed.shape != call.output.shape:
            raise HeadwiseError(
                who="change",
                what="what it returns",
                expected=f"None or of shape {list(call.output.shape)}",
                got=str(list(changed.shape)),
                why=f"The model goes on with it in place of the output of call {call.number}",
                do="Start from call.output",
            )
        why = self._why_not()
        if why is not None:
            refuse(call.layer or "the model", why)
        changed = changed.reshape(self.output.shape if self.arranged is None else self.arranged)
        changed = changed if self.order is None else changed.permute(self.order)
        if self.into is not None:
            return self.output.copy_(changed)
        placed = torch.empty_like(self.output).copy_(changed)  # models rely on the strides of the kernel
        return placed if type(self.output) is Tensor else placed.as_subclass(type(self.output))

    def _why_not(self) -> str | None:
        if self.late:
            return "Compiled code made it, and goes on before anybody sees it"
        if self.wrapped:
            return "It runs under torch.vmap or torch.func"
        holder: object = self.output
        if self.output.is_nested or is_traceable_wrapper_subclass(holder):
            return f"Its output is a {type(self.output).__name__}, which holds other tensors"
        return "A checkpoint runs it again for the gradients, and unchanged then" if _runs_again() else None


def refuse(call: str, why: str) -> NoReturn:
    """Raise HeadwiseError for a call that cannot be changed.

    >>> refuse("layer.0", "It runs under torch.vmap or torch.func")
    Traceback (most recent call last):
    ...
    headwise.errors.HeadwiseError: layer.0: a call to change must be one that plain Python makes, \
got another. It runs under torch.vmap or torch.func. Run the model without torch.compile, torch.jit, \
torch.vmap and gradient checkpointing.
    """
    raise HeadwiseError(
        who=call,
        what="a call to change",
        expected="one that plain Python makes",
        got="another",
        why=why,
        do="Run the model without torch.compile, torch.jit, torch.vmap and gradient checkpointing",
    )


def in_a_trace(*, changing: bool) -> bool:
    """Whether a trace is being made, which would record our own steps. Raises HeadwiseError if a change is to
    be made in it.

    >>> in_a_trace(changing=True)
    False
    """
    if torch._C._is_tracing() and changing:
        refuse("the model", "A trace of it is being made, which would hold the change")
    return bool(torch._C._is_tracing())


def _runs_again() -> bool:
    """Whether a checkpoint is running this, which will do so again where no mode sees it."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == checkpoint.__file__:
            return torch.is_grad_enabled() or frame.f_code.co_name == "forward"
    return False
