"""What a whole check gives: one outcome for each property, as one table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Any

from headwise.check.report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 80  # of a page, in columns


@dataclass(frozen=True)
class Outcome:
    """The report of one property, and whether it had to hold.

    A property ``must`` hold if everybody needs it, or if the owner claims it; the others are told as found.
    ``note`` is a sentence beside the report, such as a strength that nobody claimed.

    >>> Outcome(Report("causality", "fails"), must=False).verdict
    'no'
    """

    report: Report
    must: bool
    note: str = ""

    @property
    def name(self) -> str:
        """The property in words."""
        name = self.report.name
        return name if " " in name else name.replace("_", " ")

    def named(self, part: str) -> Outcome:
        """The same under the name of a part of the model; unchanged without a name."""
        if not part:
            return self
        return replace(self, report=replace(self.report, name=f"{part}: {self.report.name}"))

    @property
    def failed(self) -> bool:
        """Whether a property that must hold does not."""
        return self.must and self.report.verdict == "fails"

    def says(self, finding: str) -> bool:
        """Whether that finding already stands here, in the note or in what fails.

        >>> report = Report("receptive field", "fails", failing="queries see 5 keys, 4 were claimed")
        >>> Outcome(report, must=True).says("queries see 5 keys")
        True
        """
        return finding == self.note or self.report.failing.startswith(f"{finding}, ")

    @property
    def verdict(self) -> str:
        """One of holds, FAILS, no (which nobody claimed), not checked."""
        if self.report.verdict == "fails":
            return "FAILS" if self.must else "no"
        return self.report.verdict


@dataclass(frozen=True)
class Checked:
    """All outcomes for one layer or model, with what was assumed to call it; ``str`` is one table.

    >>> from headwise.check import layer
    >>> checked = layer(torch.nn.Linear(4, 4), only="batch")
    >>> checked.passed, [outcome.verdict for outcome in checked.outcomes]
    (True, ['holds'])
    """

    name: str
    assumed: tuple[str, ...]
    found: tuple[str, ...]
    claims: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    calls: int

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The properties that must hold and do not."""
        return tuple(outcome for outcome in self.outcomes if outcome.failed)

    @property
    def passed(self) -> bool:
        """Whether no property fails; some may be told as not checked."""
        return not self.failures

    def raise_if_failed(self) -> None:
        """Raise AssertionError, with the whole table, if a property fails."""
        if not self.passed:
            raise AssertionError(f"\n{self}")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and dictionaries; infinity as the text "infinity"."""
        outcomes = [
            {
                **{name: _plain(value) for name, value in asdict(outcome.report).items()},
                "name": outcome.name,
                "must": outcome.must,
                "failed": outcome.failed,
                "note": outcome.note,
            }
            for outcome in self.outcomes
        ]
        return {
            "name": self.name,
            "passed": self.passed,
            "assumed": list(self.assumed),
            "found": list(self.found),
            "claims": list(self.claims),
            "calls": self.calls,
            "outcomes": outcomes,
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def __rich__(self) -> RenderableType:
        """What a terminal shows, with colours where it has them."""
        from headwise.check.page import page

        return page(self)

    def __str__(self) -> str:
        from rich.console import Console

        text = StringIO()
        Console(file=text, width=WIDTH, color_system=None, force_terminal=False).print(self.__rich__())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def from_dict(plain: dict[str, Any]) -> Checked:
    """The inverse of `Checked.to_dict`.

    >>> outcome = Outcome(Report("causality", "fails", torch.inf), must=True)
    >>> checked = Checked("tiny", (), (), ("causal",), (outcome,), 3)
    >>> from_dict(checked.to_dict()) == checked
    True
    """
    names = ("name", "verdict", "figure", "tolerance", "tried", "failing", "cause")
    outcomes = []
    for each in plain["outcomes"]:
        values: dict[str, Any] = {name: _number(each[name]) for name in names}
        outcomes.append(Outcome(Report(**values), each["must"], each["note"]))
    return Checked(
        plain["name"],
        tuple(plain["assumed"]),
        tuple(plain["found"]),
        tuple(plain["claims"]),
        tuple(outcomes),
        plain["calls"],
    )


def _number(value: object) -> object:
    return float("inf") if value == "infinity" else value


def _plain(value: object) -> object:
    return "infinity" if value == float("inf") else value
