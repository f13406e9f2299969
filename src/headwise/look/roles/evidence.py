"""What was seen of a role: every head's score in each text, and what tells it from chance and distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headwise.look.roles.question import OFFSETS, Question

Floats = NDArray[np.float64]
Half = NDArray[np.bool_]
RAW, VALUE_WEIGHTED, WITHOUT_SINKS = range(3)
EVEN = "even attention"
ALWAYS = "always "  # and a fixed offset
FEWEST_DOCUMENTS = 20  # on either side: fewer have few signs to turn, and an error that is itself uncertain


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over the rows that a role asked of each text.

    ``score`` and ``control`` are ``[variant text head]``: attention as it is, weighted by the length of the
    values it carries, and without the weight on sinks. ``control`` is what chance would score with the same
    attention, or the same head on a control text. ``offsets`` are how many rows each fixed offset gets right,
    ``even`` how many a head would that attends evenly, ``nearest`` and ``first`` how many one would that
    looks at the nearest or the first candidate. ``first_half`` are the texts on which heads are chosen.
    ``documents`` names the one that each text is of. Documents are the units of errors and of p where each
    half has at least 20 of them, as texts of one document are not independent; otherwise texts are.

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
    documents: Sequence[str] = ()

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
        """The standard error of ``mean``, units being independent of each other and rows of a unit not.

        That of a ratio: ``sqrt(T / (T - 1) sum_t (s_t - mean n_t)^2) / n``, Cochran 1977, eq. (6.9) without
        its correction for a finite population. A unit ``t`` is a document, or a text: see ``documents``.
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

    @cached_property
    def by_document(self) -> bool:
        """Whether each half has documents enough for them to be the units."""
        names = np.array(self.documents)
        halves = [self.first_half, self.second_half] if len(names) else []
        return bool(halves) and all(len(np.unique(names[half])) >= FEWEST_DOCUMENTS for half in halves)

    @property
    def units(self) -> str:
        """How many of what are taken to be independent, such as "50 documents"."""
        kind = "document" if self.by_document else "text"
        count = len(self.by_unit(self.counts, self.everything))
        return f"{count} {kind}{'s' if count != 1 else ''}"

    def by_unit(self, sums: Floats, texts: Half) -> Floats:
        """Sums by text as sums by unit, ``[text ...]`` to ``[unit ...]``; units come in no special order."""
        if not self.by_document:
            return sums[texts]
        _, unit = np.unique(np.array(self.documents)[texts], return_inverse=True)
        order = np.argsort(unit, kind="stable")
        starts = np.searchsorted(unit[order], np.arange(unit.max() + 1))
        found: Floats = np.add.reduceat(sums[texts][order], starts, axis=0)
        return found

    def excess(self, texts: Half) -> Floats:
        """By unit, how much more the rows of each head score than their control: ``[unit head]``."""
        return self.by_unit(self.score[RAW] - self.control[RAW], texts)

    def beside(self, control: Evidence) -> Evidence:
        """The same, with the same heads on control texts, one for each text, in the place of chance."""
        return replace(self, control=control.score, controlled=True)

    def _rival(self) -> tuple[Floats, str]:
        rivals = [(self.even, EVEN)]
        if self.best_offset is not None:
            at_offset = self.offsets[:, OFFSETS.index(self.best_offset)]
            rivals.append((at_offset, f"{ALWAYS}{self.best_offset:+d}"))
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
        left = self.by_unit(sums - self._ratio(sums, texts) * self.counts[:, None], texts)
        count = len(left)
        if count < 2:
            return np.full(sums.shape[1], np.nan)
        found: Floats = np.sqrt(count / (count - 1) * (left**2).sum(0)) / self.counts[texts].sum()
        return found
