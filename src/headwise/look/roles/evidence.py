"""What was seen of a role: every head's score in each text, and what tells it from chance and distance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwise.look.roles.question import OFFSETS, Question

Floats = NDArray[np.float64]
Half = NDArray[np.bool_]
RAW, VALUE_WEIGHTED, WITHOUT_SINKS = range(3)
EVEN = "even attention"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over the rows that a role asked of each text.

    ``score`` and ``control`` are ``[variant text head]``: attention as it is, weighted by the length of the
    values it carries, and without the weight on sinks. ``control`` is what chance would score with the same
    attention, or the same head on a control text. ``offsets`` are how many rows each fixed offset gets right,
    ``even`` how many a head would that attends evenly, ``nearest`` and ``first`` how many one would that
    looks at the nearest or the first candidate. ``first_half`` are the texts on which heads are chosen.

    >>> ones = np.ones((3, 4, 2))
    >>> found = Evidence("next", Question("position", "Why?", dict), np.full(4, 2.0), np.zeros((4, 11)),
    ...                  np.zeros(4), ones, ones / 2, np.array([True, False, True, False]))
    >>> found.mean()
    array([0.5, 0.5])
    """

    role: str
    question: Question
    counts: Floats
    offsets: Floats
    even: Floats
    score: Floats
    control: Floats
    first_half: Half
    nearest: Floats | None = None
    controlled: bool = False
    first: Floats | None = None

    @property
    def everything(self) -> Half:
        """All texts."""
        return np.ones(len(self.counts), dtype=bool)

    @property
    def second_half(self) -> Half:
        """The texts on which heads are reported."""
        return ~self.first_half

    def rows(self, texts: Half | None = None) -> int:
        """How many rows were asked."""
        return int(self.counts[self.everything if texts is None else texts].sum())

    def mean(self, texts: Half | None = None, variant: int = RAW) -> Floats:
        """Each head's score of the average row."""
        return self._ratio(self.score[variant], self.everything if texts is None else texts)

    def mean_of_control(self, texts: Half | None = None, variant: int = RAW) -> Floats:
        """What each head's attention scores by chance, or on the control texts."""
        return self._ratio(self.control[variant], self.everything if texts is None else texts)

    def error(self, texts: Half | None = None, variant: int = RAW) -> Floats:
        """The standard error of ``mean``, texts being independent of each other and rows of a text not.

        That of a ratio: ``sqrt(T / (T - 1) sum_t (s_t - mean n_t)^2) / n``, Cochran 1977, eq. (6.9) without
        its correction for a finite population.
        """
        return self._error(self.score[variant], self.everything if texts is None else texts)

    @cached_property
    def best_offset(self) -> int | None:
        """The fixed offset that gets most rows right, None where distance is the role itself."""
        if not self.question.offsets:
            return None
        return OFFSETS[int(self.offsets.sum(0).argmax())]

    def baseline(self, texts: Half) -> float:
        """The best of the best fixed offset, the nearest and the first candidate, and even attention."""
        best, _ = self._rival()
        return float(self._ratio(best[:, None], texts)[0])

    @property
    def baseline_name(self) -> str:
        """What the baseline is."""
        return self._rival()[1]

    def above(self, texts: Half) -> tuple[Floats, Floats]:
        """How far each head's score is above the baseline and its control text, and the error of that."""
        rival = np.broadcast_to(self._rival()[0][:, None], self.score[RAW].shape)
        contrasts = [rival, self.control[RAW]] if self.controlled else [rival]
        margins = [self._ratio(self.score[RAW] - other, texts) for other in contrasts]
        errors = [self._error(self.score[RAW] - other, texts) for other in contrasts]
        nearest = np.argmin(margins, axis=0)[None]
        return (
            np.take_along_axis(np.array(margins), nearest, 0)[0],
            np.take_along_axis(np.array(errors), nearest, 0)[0],
        )

    def excess(self, texts: Half) -> Floats:
        """By text, how much more the rows of each head score than their control: ``[text head]``."""
        found: Floats = self.score[RAW][texts] - self.control[RAW][texts]
        return found

    def beside(self, control: Evidence) -> Evidence:
        """The same, with the same heads on control texts, one for each text, in the place of chance."""
        return replace(self, control=control.score, controlled=True)

    def _rival(self) -> tuple[Floats, str]:
        rivals = [(self.even, EVEN)]
        if self.best_offset is not None:
            at_offset = self.offsets[:, OFFSETS.index(self.best_offset)]
            rivals.append((at_offset, f"always {self.best_offset:+d}"))
            if self.nearest is not None:
                rivals.insert(1, (self.nearest, "the nearest"))
            if self.first is not None:
                rivals.insert(1, (self.first, "the first"))
        return max(reversed(rivals), key=lambda rival: float(rival[0].sum()))

    def _ratio(self, sums: Floats, texts: Half) -> Floats:
        rows = self.counts[texts].sum()
        found: Floats = sums[texts].sum(0) / rows if rows else np.full(sums.shape[1], np.nan)
        return found

    def _error(self, sums: Floats, texts: Half) -> Floats:
        count = int(texts.sum())
        if count < 2:
            return np.full(sums.shape[1], np.nan)
        left = sums[texts] - self._ratio(sums, texts) * self.counts[texts][:, None]
        found: Floats = np.sqrt(count / (count - 1) * (left**2).sum(0)) / self.counts[texts].sum()
        return found
