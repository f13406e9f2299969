"""Calls as their owner writes them: nothing is guessed."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import Tensor

from headwise.check.inputs import Inputs
from headwise.check.subjects.signature import Thing
from headwise.check.subjects.subject import Subject
from headwise.core.errors import HeadwiseError


def as_called(
    thing: Thing, name: str, call: Callable[..., Tensor], inputs: Inputs | None, *, who: str
) -> Subject:
    """The subject that ``call(thing, x)`` describes, with ``keep`` and ``positions`` where it names them.

    >>> from headwise.check.inputs import Vectors
    >>> as_called(None, "sums", lambda thing, x, keep=None: x.cumsum(1), Vectors(4), who="layer").takes_keep
    True
    """
    if inputs is None:
        raise HeadwiseError(
            who=who,
            what="inputs",
            expected="given where call= is, such as Vectors(64) or Tokens(100)",
            got="None",
            why="Only the caller of call= knows what it takes",
            do="Pass inputs=Vectors(width) or inputs=Tokens(number)",
        )
    known = inspect.signature(call).parameters
    takes_keep, takes_positions = "keep" in known, "positions" in known

    def named(thing: Thing, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
        more: dict[str, Tensor] = {}
        if keep is not None and takes_keep:
            more["keep"] = keep
            if positions is None and takes_positions:
                positions = (keep.cumsum(-1) - 1).clamp(min=0)
        if positions is not None and takes_positions:
            more["positions"] = positions
        return call(thing, x, **more)

    assumed = [f"called as call(module, x{', keep' * takes_keep}{', positions' * takes_positions})"]
    subject = Subject(
        name, thing, inputs, named, assumed, takes_keep=takes_keep, takes_positions=takes_positions
    )
    if not takes_keep:
        do = "Give call= an argument keep, True for a real token"
        subject.questions["padding"] = ("call= takes no keep", do)
    if not takes_positions:
        subject.questions["shift"] = ("call= takes no positions", "Give call= an argument positions")
    return subject
