"""What an einsum of two tensors multiplies: queries with keys, or probabilities with values."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor


class Equation(NamedTuple):
    """The letters of ``left,right->out``."""

    left: str
    right: str
    out: str


class Product(NamedTuple):
    """``left @ right^T = out`` with the same leading axes in all three.

    ``out.permute(order)`` is the output as the einsum gave it.
    """

    left: Tensor
    right: Tensor
    out: Tensor
    order: tuple[int, ...] | None = None


def read(args: tuple[Any, ...]) -> tuple[Equation, Tensor, Tensor] | None:
    """Equation and operands of an einsum of two tensors; None for any other.

    >>> x = torch.zeros(2, 3, 4)
    >>> read(("... i d, ... j d -> ... i j", x, x))[0]
    Equation(left='Aid', right='Ajd', out='Aij')
    """
    if not args or not isinstance(args[0], str):
        return None
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if len(operands) != 2 or args[0].count(",") != 1 or "->" not in args[0]:
        return None
    a, b = operands
    inputs, out = args[0].replace(" ", "").split("->")
    left, right = inputs.split(",")
    if "..." in args[0]:
        hidden = a.dim() - len(left.replace("...", ""))
        if b.dim() - len(right.replace("...", "")) != hidden or "..." not in left or "..." not in right:
            return None
        left, right, out = (part.replace("...", "ABCDEFGH"[:hidden]) for part in (left, right, out))
    if any(len(set(part)) != len(part) for part in (left, right, out)):
        return None
    return Equation(left, right, out), a, b


def as_scores(equation: Equation, a: Tensor, b: Tensor, out: Tensor) -> Product | None:
    """Queries and keys, if this is a product over one shared axis and its last two axes are query and key.

    >>> q, k = torch.zeros(2, 3, 4, 8), torch.zeros(2, 5, 4, 8)
    >>> made = as_scores(Equation("bqhd", "bkhd", "bhqk"), q, k, torch.zeros(2, 4, 3, 5))
    >>> made.left.shape, made.right.shape
    (torch.Size([2, 4, 3, 8]), torch.Size([2, 4, 5, 8]))
    """
    left, right, letters = equation
    summed = (set(left) & set(right)) - set(letters)
    if len(summed) != 1 or len(letters) < 3:
        return None
    if letters[-2] in right:  # the keys came first
        left, right, a, b = right, left, b, a
    lead, query, key = letters[:-2], letters[-2], letters[-1]
    inner = summed.pop()
    if set(left) != {*lead, query, inner} or set(right) != {*lead, key, inner}:
        return None
    return Product(_arranged(a, left, lead + query + inner), _arranged(b, right, lead + key + inner), out)


def as_values(equation: Equation, p: Tensor, v: Tensor, out: Tensor) -> Product | None:
    """Values and output, if this multiplies probabilities ``p`` (the left operand) with them over the keys.

    >>> p, v = torch.zeros(2, 4, 3, 5), torch.zeros(2, 5, 4, 8)
    >>> made = as_values(Equation("bhqk", "bkhd", "bqhd"), p, v, torch.zeros(2, 3, 4, 8))
    >>> made.right.shape, made.out.shape, made.order
    (torch.Size([2, 4, 5, 8]), torch.Size([2, 4, 3, 8]), (0, 2, 1, 3))
    """
    left, right, letters = equation
    if len(left) < 3:
        return None
    lead, query, key = left[:-2], left[-2], left[-1]
    width = set(right) - set(left)
    if len(width) != 1 or set(right) != {*lead, key, *width} or set(letters) != {*lead, query, *width}:
        return None
    dim = width.pop()
    wanted = lead + query + dim
    order = tuple(wanted.index(letter) for letter in letters)
    return Product(p, _arranged(v, right, lead + key + dim), _arranged(out, letters, wanted), order)


def _arranged(x: Tensor, letters: str, wanted: str) -> Tensor:
    return x.permute([letters.index(letter) for letter in wanted])
