"""Follows hand-written attention through a model: product, softmax, product."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from headwise.look.calls.equations import as_scores, as_values, read
from headwise.look.calls.plain import wrapped

_T: Any = torch.Tensor
MATMULS: frozenset[Any] = frozenset((torch.matmul, torch.bmm, _T.matmul, _T.bmm, _T.__matmul__))
ADDED_MATMULS: frozenset[Any] = frozenset((torch.baddbmm, _T.baddbmm, _T.baddbmm_))
EINSUMS: frozenset[Any] = frozenset((torch.einsum, torch.functional.einsum))
SOFTMAXES: frozenset[Any] = frozenset((functional.softmax, torch.softmax, _T.softmax, torch.special.softmax))
_TIMES: frozenset[Any] = frozenset((torch.mul, torch.multiply, _T.mul, _T.mul_, _T.multiply, _T.__mul__))
_OVER: frozenset[Any] = frozenset(
    (torch.div, torch.true_divide, _T.div, _T.div_, _T.true_divide, _T.__truediv__)
)
_DROPS: frozenset[Any] = frozenset((functional.dropout, torch.dropout))
# what may happen to probabilities between the softmax and the values, as it changes none of them
_KEEPS: frozenset[Any] = frozenset(
    (
        *(_T.to, _T.type, _T.type_as, _T.float, _T.half, _T.bfloat16, _T.double, _T.contiguous, _T.clone),
        *(_T.view, _T.reshape, torch.reshape, _T.flatten, torch.flatten, _T.unflatten, _T.unsqueeze),
        *(torch.unsqueeze, _T.squeeze, torch.squeeze, _T.__getitem__, torch.clone, _T.detach),
    )
)
_MOST_WAITING = 8
_LOST = "the softmax of its scores did not multiply values as it was"
_TWICE = "its probabilities multiplied something beside the values"


@dataclass
class Step:
    """Scores on their way from queries and keys to the values.

    Every form of them is known, as a copy is often taken aside, but none is kept alive.
    """

    q: Tensor
    k: Tensor
    current: InitVar[Tensor]
    path: str
    scale: float = 1.0
    scores: Tensor | None = None  # what the softmax took
    dropout: float = 0.0
    known: list[tuple[weakref.ref[Tensor], float]] = field(default_factory=list)

    def __post_init__(self, current: Tensor) -> None:
        self.becomes(current)

    def becomes(self, x: Tensor, factor: float = 1.0) -> None:
        """Note a further form of the scores, or of the probabilities."""
        self.scale *= factor
        self.known.append((weakref.ref(x), self.scale))

    def is_now(self, x: object) -> bool:
        """Whether a tensor is a form of the scores; its scale is then that of the step."""
        for known, scale in reversed(self.known):  # in-place steps note a tensor again
            if x is not None and known() is x:
                self.scale = scale
                return True
        return False


@dataclass
class Found:
    """A whole attention: its step, the values and the output, leading axes as in the probabilities.

    ``output.permute(order)`` is the output as the model has it.
    """

    step: Step
    v: Tensor
    output: Tensor
    order: tuple[int, ...] | None = None


class Trail:
    """The products that may still become attention, and the softmaxes of scores that did not.

    >>> trail, x = Trail(), torch.zeros(1, 2, 3, 4)
    >>> scores = x @ x.mT
    >>> trail.follow(torch.matmul, (x, x.mT), {}, scores, "layer.0")
    >>> weights = scores.softmax(-1)
    >>> trail.follow(torch.softmax, (scores, -1), {}, weights, "layer.0")
    >>> trail.follow(torch.matmul, (weights, x), {}, weights @ x, "layer.0").v.shape
    torch.Size([1, 2, 3, 4])
    """

    def __init__(self) -> None:
        self.waiting: list[Step] = []
        self.done: tuple[str, list[weakref.ref[Tensor]]] = ("", [])
        self.lost: list[tuple[str, str]] = []

    def follow(
        self, func: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: object, path: str
    ) -> Found | None:
        """Take one function call of the model into account; returns attention where one is complete."""
        if func in MATMULS or func in ADDED_MATMULS or func in EINSUMS:
            return self._product(func, args, kwargs, result, path)
        if not self.waiting or not isinstance(result, Tensor):
            return None
        step = self._mentioned(args, kwargs)
        if step is None:
            return None
        if func in SOFTMAXES:
            self._softmax(step, args, kwargs, result)
        elif step.scores is not None:
            self._after_softmax(step, func, args, kwargs, result)
        elif result.is_floating_point() and result.numel() >= step.q.shape[-2] * step.k.shape[-2]:
            step.becomes(result, _factor(func, args))
        return None

    def drop(self, path: str) -> None:
        """Forget what is open in a module and in those inside it; note softmaxes that no values followed."""
        for step in [step for step in self.waiting if step.path == path or inside(step.path, path)]:
            self._lose(step)
            self.waiting.remove(step)

    def _product(
        self, func: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: object, path: str
    ) -> Found | None:
        if not isinstance(result, Tensor):
            return None
        for step in self.waiting:
            if step.scores is not None and (found := _values(step, func, args, kwargs, result)):
                self.waiting.remove(step)
                self.done = step.path, [known for known, _ in step.known]
                return found
        if any(known() is x for x in _tensors(args) for known in self.done[1]):
            self.lost.append((self.done[0], _TWICE))
        made = _scores(func, args, kwargs, result, path)
        if made is not None:
            self.waiting.append(made)
            if len(self.waiting) > _MOST_WAITING:
                self._lose(self.waiting.pop(0))
        return None

    def _softmax(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        scores = args[0] if args else kwargs["input"]
        if step.scores is None and dim in (-1, result.dim() - 1) and result.dim() >= 3:
            step.scores, step.known = scores, []
            step.becomes(result)

    def _after_softmax(
        self, step: Step, func: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor
    ) -> None:
        if func in _DROPS:
            rate = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            training = args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True))
            step.dropout = float(rate) if training else step.dropout
            step.becomes(result)
        elif func in _KEEPS:
            step.becomes(result)

    def _mentioned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
        given = list(_tensors(args)) + list(_tensors(tuple(kwargs.values())))
        for step in reversed(self.waiting):
            if any(step.is_now(x) for x in given):
                return step
        return None

    def _lose(self, step: Step) -> None:
        if step.scores is not None:
            self.lost.append((step.path, _LOST))


def inside(path: str, outer: str) -> bool:
    """Whether a module's path is below another's.

    >>> inside("layer.0", "layer"), inside("layers.0", "layer"), inside("layer", ""), inside("layer", "layer")
    (True, False, True, False)
    """
    return path.startswith(f"{outer}.") if outer else bool(path)


def _tensors(args: tuple[Any, ...]) -> Iterator[Tensor]:
    for x in args:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from (y for y in x if isinstance(y, Tensor))


def _factor(func: object, args: tuple[Any, ...]) -> float:
    """What scores are multiplied by in this call, 1 where it is no plain number."""
    if len(args) < 2 or (func not in _TIMES and func not in _OVER):
        return 1.0
    other = args[1]
    if isinstance(other, Tensor):
        if other.dim() or other.is_meta or not other.is_floating_point() or wrapped([other]):
            return 1.0
        other = other.item()
    if not isinstance(other, (int, float)) or not other:
        return 1.0
    return float(other) if func in _TIMES else 1.0 / other


def _operands(func: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    if func in ADDED_MATMULS:
        given = (*args[1:3], *(kwargs[name] for name in ("batch1", "batch2") if name in kwargs))
    else:
        given = (*args[:2], *(kwargs[name] for name in ("other", "mat2", "tensor2") if name in kwargs))
    if len(given) != 2 or not all(isinstance(x, Tensor) and x.dim() >= 3 for x in given):
        return None
    return given[0], given[1]


def _scores(
    func: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor, path: str
) -> Step | None:
    if result.dim() < 3:
        return None
    if func in EINSUMS:
        parts = read(args)
        made = parts and as_scores(*parts, result)
        return Step(made.left, made.right, result, path) if made else None
    operands = _operands(func, args, kwargs)
    if operands is None:
        return None
    scale = float(kwargs.get("alpha", 1.0)) if func in ADDED_MATMULS else 1.0
    return Step(operands[0], operands[1].transpose(-1, -2), result, path, scale)


def _values(
    step: Step, func: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor
) -> Found | None:
    keys = step.k.shape[-2]
    if func in EINSUMS:
        parts = read(args)
        if parts is None:
            return None
        equation, p, v = parts
        if step.is_now(v):
            equation, p, v = equation._replace(left=equation.right, right=equation.left), v, p
        made = as_values(equation, p, v, result) if step.is_now(p) else None
        return Found(step, made.right, made.out, made.order) if made and p.shape[-1] == keys else None
    operands = _operands(func, args, kwargs) if func in MATMULS else None
    if operands is None or not step.is_now(operands[0]) or operands[0].shape[-1] != keys:
        return None
    return Found(step, operands[1], result)
