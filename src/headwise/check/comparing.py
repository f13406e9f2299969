"""How far two outputs are apart, and the smallest input that sets them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.check.asking import CannotBeCheckedError
from headwise.check.report import Report, judged
from headwise.check.rounding import largest


class Worst(NamedTuple):
    """The largest change as a share of the largest output, and where it is; infinite if a number is lost."""

    share: float
    row: int
    place: int

    @property
    def words(self) -> str:
        """The change as a verb.

        >>> Worst(0.25, 0, 0).words, Worst(torch.inf, 0, 0).words
        ('changes by 0.25 of the largest output', 'is no longer a finite number')
        """
        if self.share == torch.inf:
            return "is no longer a finite number"
        return f"changes by {self.share:.2g} of the largest output"


def worst(before: Tensor, after: Tensor) -> Worst:
    """The place where two outputs ``[batch length ...]`` are farthest apart.

    >>> worst(torch.tensor([[[2.0], [4.0]]]), torch.tensor([[[2.0], [3.0]]]))
    Worst(share=0.25, row=0, place=1)
    """
    apart = (after.double() - before.double()).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    apart = apart.reshape(*before.shape[:2], -1).amax(-1)
    row, place = divmod(int(apart.argmax()), before.shape[1])
    return Worst(float(apart.max()) / (largest(before) or 1.0), row, place)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """How far apart two tensors are, element by element; infinity where one alone is not-a-number.

    >>> inf = torch.inf
    >>> distance(torch.tensor([1.0, inf, torch.nan]), torch.tensor([3.0, inf, 0.0]))
    tensor([2., 0., inf], dtype=torch.float64)
    """
    a, b = a.detach().double(), b.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())
    return (a - b).abs().masked_fill(same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)


def place(apart: Tensor) -> tuple[float, tuple[int, ...]]:
    """The largest number and where it stands.

    >>> place(torch.tensor([[0.0, 1.0], [3.0, 2.0]]))
    (3.0, (1, 0))
    """
    index = int(apart.argmax())
    where = tuple(int(number) for number in torch.unravel_index(torch.tensor(index), apart.shape))
    return float(apart[where]), where


class Finding(NamedTuple):
    """What one attempt found: its largest figure, what rounding allows, and the case in words."""

    figure: float
    allowed: float
    words: str

    @property
    def fails(self) -> bool:
        """Whether the figure is more than rounding; not-a-number is."""
        return not self.figure <= self.allowed


Attempt = Callable[[int], Finding]


def first_failing(findings: Iterable[Finding]) -> Finding:
    """The first that fails; if none does, the one nearest to failing.

    >>> first_failing([Finding(1.0, 9.0, "a"), Finding(2.0, 9.0, "b")]).words
    'b'
    """
    nearest = Finding(0.0, 0.0, "")
    for found in findings:
        if found.fails:
            return found
        if found.figure > nearest.figure or not nearest.words:
            nearest = found
    return nearest


def shortest(attempt: Attempt, lengths: Sequence[int]) -> Finding:
    """The finding at the shortest length that fails, found by halving between the lengths tried.

    >>> shortest(lambda length: Finding(float(length > 6), 0.5, f"{length} places"), (2, 12)).words
    '7 places'
    """
    if not lengths:
        raise CannotBeCheckedError("there is no length to try", "Pass lengths=(2, 5, 12), for example")
    passed, nearest = 0, Finding(0.0, 0.0, "")
    for length in sorted(lengths):
        found = attempt(length)
        if not found.fails:
            passed, nearest = length, first_failing([nearest, found])
            continue
        while length - passed > 1:
            middle = (passed + length) // 2
            shorter = attempt(middle)
            passed, length, found = (passed, middle, shorter) if shorter.fails else (middle, length, found)
        return found
    return nearest


def reported(name: str, found: Finding, *, tried: str, cause: str) -> Report:
    """The report of a finding; an infinite figure is left to the words.

    >>> reported("shift", Finding(1e-8, 1e-6, ""), tried="2 shifts", cause="").verdict
    'holds'
    """
    if found.figure == torch.inf:
        return Report(name, "fails", tried=tried, failing=found.words, cause=cause)
    return judged(name, found.figure, found.allowed, tried=tried, failing=found.words, cause=cause)
