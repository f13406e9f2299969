"""What a property test says: whether the property holds, how that was tried, and where it breaks."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["holds", "fails", "not checked"]


@dataclass(frozen=True)
class Report:
    """The outcome of one property test.

    - ``figure`` is the largest violation found and ``tolerance`` what rounding may cause, in the same unit.
    - ``tried`` says in words what was run.
    - ``failing`` is the smallest failing input found, in words: which positions, how far.
    - ``cause`` is what usually causes such a failure and what to look at.
    - a property that could not be checked says in ``failing`` why, and in ``cause`` what to pass.

    >>> report = Report("causality", "fails", 0.3, 1e-6, tried="8 inputs of 12 tokens",
    ...                 failing="the output at 3 changes by 0.3 with the input at 4",
    ...                 cause="A mask that is off by one: look at its diagonal")
    >>> print(report)
    causality fails: the output at 3 changes by 0.3 with the input at 4.
      0.3, where rounding allows 1e-06; tried 8 inputs of 12 tokens.
      A mask that is off by one: look at its diagonal.
    >>> report.raise_if_failed()
    Traceback (most recent call last):
    ...
    headwise.check.report.PropertyError: causality fails: the output at 3 changes by 0.3 with the input at 4.
      0.3, where rounding allows 1e-06; tried 8 inputs of 12 tokens.
      A mask that is off by one: look at its diagonal.
    """

    name: str
    verdict: Verdict
    figure: float | None = None
    tolerance: float | None = None
    tried: str = ""
    failing: str = ""
    cause: str = ""

    @property
    def passed(self) -> bool:
        """Whether the property was checked and holds."""
        return self.verdict == "holds"

    def raise_if_failed(self) -> None:
        """Raise PropertyError, an AssertionError, if the property fails or could not be checked."""
        if not self.passed:
            raise PropertyError(self)

    def to_json(self) -> str:
        """Every field as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        lines = [f"{self.name} {self.verdict}" + (f": {self.failing}." if self.failing else ".")]
        figures = ""
        if self.figure is not None and self.tolerance is not None:
            figures = f"{self.figure:.2g}, where rounding allows {self.tolerance:.2g}"
        parts = [part for part in (figures, f"tried {self.tried}" if self.tried else "") if part]
        lines += [f"  {'; '.join(parts)}."] if parts else []
        lines += [f"  {self.cause}."] if self.cause and not self.passed else []
        return "\n".join(lines)


class PropertyError(AssertionError):
    """A property that fails; ``report`` says how."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(str(report))


def not_checked(name: str, why: str, do: str) -> Report:
    """The report of a property that could not be checked: why, and what to pass.

    >>> print(not_checked("cache", why="no cache is known", do="Pass step="))
    cache not checked: no cache is known.
      Pass step=.
    """
    return Report(name, "not checked", failing=why, cause=do)


def judged(name: str, figure: float, tolerance: float, *, tried: str, failing: str, cause: str) -> Report:
    """The report of a figure beside its tolerance; not-a-number fails.

    >>> judged("shift", 1e-8, 1e-6, tried="2 shifts", failing="", cause="").verdict
    'holds'
    """
    if figure <= tolerance:
        return Report(name, "holds", figure, tolerance, tried)
    return failed(name, figure, tolerance, tried=tried, failing=failing, cause=cause)


def failed(
    name: str,
    figure: float | None = None,
    tolerance: float | None = None,
    *,
    tried: str,
    failing: str,
    cause: str,
) -> Report:
    """The report of a property that fails; a figure that is no finite number is left to the words.

    >>> failed("shift", torch.inf, 1e-6, tried="2 shifts", failing="it gives infinity", cause="").figure
    """
    figure = figure if figure is not None and math.isfinite(figure) else None
    return Report(name, "fails", figure, tolerance, tried, failing, cause)
