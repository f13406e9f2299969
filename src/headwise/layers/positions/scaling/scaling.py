"""What a frequency scaling is: a pure function of frequencies and a length."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError


@dataclass(frozen=True)
class FrequencyScaling(ABC):
    """Changes the frequencies of a rotary encoding, so that it reaches beyond the trained length.

    ``scaling(frequencies, length)`` is a pure function of its two arguments: nothing is kept, and what has
    ``needs_length = False`` does not look at the length. Frequencies are ``base^(-2i / dims)``, in float64;
    the length is a number or one for each row of a batch. Cosine and sine, and so the turned vectors, are
    multiplied by ``attention_factor``: a score by its square.

    >>> from headwise.layers.positions.scaling import PositionInterpolation
    >>> PositionInterpolation(2.0)(torch.tensor([1.0, 0.1], dtype=torch.float64), None)
    tensor([0.5000, 0.0500], dtype=torch.float64)
    """

    needs_length: ClassVar[bool] = False
    source: ClassVar[str]

    @abstractmethod
    def __call__(
        self, frequencies: Float[Tensor, " pairs"], length: int | Int[Tensor, "*batch"] | None
    ) -> Float[Tensor, "*batch pairs"]:
        """The scaled frequencies."""

    @property
    def attention_factor(self) -> float:
        """What cosine and sine are multiplied by: 1 unless the scaling says otherwise."""
        return 1.0


def check_scaling(scaling: object, *, who: str) -> None:
    """Refuse anything but a scaling, made and not only named.

    >>> from headwise.layers.positions.scaling import NTKAware
    >>> check_scaling(NTKAware(2.0), who="Rotary")
    """
    if isinstance(scaling, FrequencyScaling):
        return
    raise HeadwiseError(
        who=who,
        what="scaling",
        expected="a FrequencyScaling such as YaRN(4.0, original_length=4096), or None",
        got=repr(scaling),
        why="It is called with the frequencies",
        do="Make one, with its numbers",
    )


def check_number(
    number: object,
    *,
    who: str,
    what: str,
    at_least: float = 0.0,
    above: bool = True,
    at_most: float = math.inf,
) -> None:
    """Refuse anything but a finite number above ``at_least``, or equal to it where ``above`` is False.

    >>> check_number(2.0, who="NTKAware", what="factor", at_least=1.0, above=False)
    """
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        high_enough = number > at_least or (not above and number == at_least)
        if high_enough and number <= at_most and abs(number) < math.inf:
            return
    ceiling = "" if at_most == math.inf else f" and at most {at_most:g}"
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"a finite number {'above' if above else 'of at least'} {at_least:g}{ceiling}",
        got=repr(number),
        why="The frequencies of the turns are computed from it",
        do="Use the number the model was trained with",
    )


def check_factor(factor: object, *, who: str) -> None:
    """Refuse anything but a finite number of at least 1, by which the length grows.

    >>> check_factor(4.0, who="YaRN")
    """
    check_number(factor, who=who, what="factor", at_least=1.0, above=False)
