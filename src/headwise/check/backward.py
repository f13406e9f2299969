"""What several ways to compute one thing give backward, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.check.asking import MisbehavedError, ask
from headwise.check.comparing import distance, place
from headwise.check.rounding import largest, other_kernels

Way = Callable[..., Any]


class Apart(NamedTuple):
    """How far the gradients of two ways are apart, what rounding allows, and both in words."""

    worst: float
    limit: float
    words: str


def gradients(way: Way, given: Sequence[Any], parameters: Sequence[Tensor]) -> list[Tensor] | None:
    """The gradients of a mixture of all outputs by what is given and by the parameters; None without any.

    Zero where nothing depends on it.

    >>> [bool(gradient.any()) for gradient in gradients(lambda x, y: 2 * x, [torch.ones(2)] * 2, [])]
    [True, False]
    >>> gradients(lambda x: x.detach(), [torch.ones(2)], [])
    """
    leaves = [x.clone().requires_grad_() if _floating(x) else x for x in given]
    by = [*(x for x in leaves if _floating(x)), *(x for x in parameters if x.requires_grad)]
    try:
        with torch.enable_grad():
            output = ask(way, *(x.clone() if _floating(x) else x for x in leaves))
            if not output.requires_grad:
                return None
            generator = torch.Generator().manual_seed(0)  # a plain sum of a normalised output never changes
            mixture = torch.randn(output.shape, generator=generator).to(output)
            found = torch.autograd.grad((output * mixture).sum(), by, allow_unused=True)
    except (MisbehavedError, RuntimeError):  # it may be made for evaluation alone
        return None
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, by, strict=True)]


def compared(
    ways: Mapping[str, Way], given: Sequence[Any], parameters: Sequence[Tensor], terms: int, depth: int
) -> tuple[list[str], Apart]:
    """The ways that pass gradients, and the one whose gradients are furthest from those of the first.

    The bound is that of outputs through twice the depth, forward and back. A share of the largest gradient
    of all, since some cancel: those of queries and keys are rounding alone where there is one key.

    >>> ways = {"one": lambda x: x * x, "other": lambda x: x * x.detach()}
    >>> compared(ways, [torch.ones(2)], [], terms=1, depth=1)[1].words
    'the gradients of one and other by input 0 are 0.5 of the largest gradient apart at [0]'
    """
    found = {name: gradients(way, given, parameters) for name, way in ways.items()}
    known = {name: each for name, each in found.items() if each is not None}
    if len(known) < 2:
        return [], Apart(0.0, 0.0, "")
    (first, right), *others = known.items()
    size = max(map(largest, right), default=0.0) or 1.0
    coarse = max((x.dtype for x in right), key=lambda dtype: torch.finfo(dtype).eps)
    limit = other_kernels(torch.ones((), dtype=coarse), terms, 2 * depth)
    number = sum(map(_floating, given))
    most = Apart(0.0, limit, "")
    for other, got in others:
        for index, (a, b) in enumerate(zip(right, got, strict=True)):
            worst, where = place(distance(a, b)) if a.numel() else (0.0, ())
            what = f"input {index}" if index < number else f"a parameter of shape {list(a.shape)}"
            words = f"the gradients of {first} and {other} by {what} are {worst / size:.2g} of the largest "
            most = max(most, Apart(worst / size, limit, f"{words}gradient apart at {list(where)}"))
    return list(known), most


def _floating(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()
