"""Plain tensors from those that torch.vmap, torch.func and nested tensors wrap."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

_functorch: Any = torch._C._functorch


def wrapped(tensors: Sequence[Tensor | None]) -> bool:
    """Whether any of the tensors belongs to torch.vmap or torch.func.

    >>> wrapped([torch.zeros(1), None])
    False
    """
    return any(x is not None and _functorch.is_functorch_wrapped_tensor(x) for x in tensors)


def unwrapped(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors with the axes that torch.vmap hides, first; they stay usable after it has ended.

    >>> unwrapped([torch.zeros(2)])[0].shape
    torch.Size([2])
    """
    while wrapped(tensors):
        level = max(_functorch.maybe_get_level(x) for x in tensors if x is not None)
        tensors = _one_level_down(tensors, level)
    return list(tensors)


def _one_level_down(tensors: Sequence[Tensor | None], level: int) -> list[Tensor | None]:
    inner: list[Any] = []
    axes: list[int | None] = []
    for x in tensors:
        here = x is not None and _functorch.maybe_get_level(x) == level
        axes.append(_functorch.maybe_get_bdim(x) if here and _functorch.is_batchedtensor(x) else None)
        inner.append(_functorch.get_unwrapped(x) if here else x)
    sizes = [x.shape[axis] for x, axis in zip(inner, axes, strict=True) if axis is not None]
    if not sizes:
        return inner
    return [
        None if x is None else x.expand(sizes[0], *x.shape) if axis is None else x.movedim(axis, 0)
        for x, axis in zip(inner, axes, strict=True)
    ]


def outside_transforms(tensors: Sequence[Tensor | None]) -> AbstractContextManager[Any]:
    """A block in which plain tensors stay plain, although torch.vmap or torch.func is running."""
    if not wrapped(tensors):
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def padded(x: Tensor) -> Tensor:
    """A nested tensor ``[batch heads (length) dim]`` as an ordinary one, zeros behind the shorter rows.

    >>> x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    >>> padded(x.unflatten(-1, (3, 1)).transpose(1, 2))[:, 0].flatten(1)
    tensor([[1., 1.],
            [1., 0.]])
    """
    parts = x.unbind()
    longest = max(part.shape[-2] for part in parts)
    return torch.stack([torch.nn.functional.pad(part, (0, 0, 0, longest - part.shape[-2])) for part in parts])


def real_pairs(q: Tensor, k: Tensor) -> Tensor:
    """Which pairs ``[batch 1 query key]`` of padded nested tensors are real."""
    real = []
    for x in (q, k):
        lengths = torch.tensor([part.shape[-2] for part in x.unbind()], device=x.device)
        real.append(torch.arange(int(lengths.max()), device=x.device) < lengths[:, None])
    return real[0][:, None, :, None] & real[1][:, None, None, :]
