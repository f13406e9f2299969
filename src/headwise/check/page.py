"""How a whole check looks: one table, then every failure in sentences, then what was not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.check.checked import Checked, Outcome

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

_STYLES = {"holds": "green", "FAILS": "bold red", "no": "yellow", "not checked": "dim"}


def page(checked: Checked) -> Group:
    """The whole page."""
    from rich.console import Group

    parts: list[RenderableType] = [_heading(checked), _table(checked)]
    for outcome in checked.failures:
        parts += _failure(outcome)
    told = [
        _told(each) for each in checked.outcomes if not each.failed and (each.note or each.verdict == "no")
    ]
    parts += _listed("Found, and fine unless you meant otherwise", [*checked.found, *told])
    parts += _listed("Not checked", _unchecked(checked))
    parts += _listed("Assumed", list(checked.assumed))
    return Group(*parts)


def _heading(checked: Checked) -> Text:
    from rich.text import Text

    failed = len(checked.failures)
    many = (
        "no property fails" if not failed else f"{failed} propert{'y fails' if failed == 1 else 'ies fail'}"
    )
    claims = f", claimed {' and '.join(checked.claims)}" if checked.claims else ""
    return Text.assemble((checked.name, "bold"), f"{claims}: ", (f"{many}.", "red" if failed else "green"))


def _table(checked: Checked) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("property", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("figure", justify="right", no_wrap=True)
    table.add_column("tolerance", justify="right", no_wrap=True)
    for outcome in checked.outcomes:
        report, verdict = outcome.report, outcome.verdict
        numbers = [_number(report.figure), _number(report.tolerance)]
        table.add_row(outcome.name, Text(verdict, style=_STYLES[verdict]), *numbers)
    return table


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.2g}"


def _failure(outcome: Outcome) -> list[RenderableType]:
    from rich.text import Text

    report = outcome.report
    lines = [outcome.note, f"tried {report.tried}" if report.tried else "", report.cause]
    body = " ".join(f"{_sentence(line)}." for line in lines if line)
    first = Text(f"{outcome.name} fails: {report.failing}.", style="red")
    return [first, _indented(body), Text("")]


def _told(outcome: Outcome) -> str:
    if outcome.verdict == "no":
        return f"{outcome.name}: no, {outcome.note or outcome.report.failing}"
    return f"{outcome.name}: {outcome.note}"


def _listed(title: str, sentences: list[str]) -> list[RenderableType]:
    from rich.text import Text

    if not sentences:
        return []
    return [Text(f"{title}:", style="bold"), *(_indented(f"{words}.") for words in sentences), Text("")]


def _unchecked(checked: Checked) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome in checked.outcomes:
        if outcome.report.verdict == "not checked":
            groups.setdefault((outcome.report.failing, outcome.report.cause), []).append(outcome.name)
    return [f"{', '.join(names)}: {why}. {do}" for (why, do), names in groups.items()]


def _indented(text: str) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(text), (0, 0, 0, 2))


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
