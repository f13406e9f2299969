"""The roles of a battery as lines of a table: those that heads hold, and in short those that none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isnan

from rich.console import Group
from rich.text import Text

from headwise.experiments.roles.battery import HeadScore, RoleResult
from headwise.experiments.roles.copied import copies
from headwise.experiments.roles.role_names import FAMILIES, group_of, short_name

_HEADS = 3
_CONTROLLED = ("meaning", "induction")  # kinds that are asked of control texts too
_NAME = 21  # columns of a role's name; a longer one has a line of its own
_HEADINGS = ("role", "head", "score", "95 %", "baseline", "p", "values", "no sinks")
_SHORT = {"even attention": "even", "the nearest": "near", "the first": "1st"}


def held_table(results: Sequence[RoleResult]) -> Group:
    """Up to three heads of each role that some head holds, under the name of its group and its data."""
    lines = [_uncut(_row(*_HEADINGS), style="dim")]
    for group, of_group in _groups(results):
        lines += [Text(""), Text.assemble((group, "bold"), f": {_data(of_group)}")]
        for result in sorted(of_group, key=lambda result: -result.heads[0].score):
            lines += _lines(result)
    return Group(*lines)


def _uncut(line: str, style: str = "") -> Text:
    """A line that a narrow terminal does not cut: a cut number says nothing."""
    return Text(line, style=style, no_wrap=True, overflow="ignore")


def _groups(results: Iterable[RoleResult]) -> list[tuple[str, list[RoleResult]]]:
    found: dict[tuple[str, str], list[RoleResult]] = {}
    for result in results:
        found.setdefault((group_of(result), result.data), []).append(result)
    order = {family: number for number, family in enumerate(FAMILIES)}
    groups = sorted(found.items(), key=lambda pair: (order.get(pair[1][0].family, len(order)), pair[0]))
    return [(group, of_group) for (group, _), of_group in groups]


def _data(results: Sequence[RoleResult]) -> str:
    rows = [result.rows for result in results]
    count = f"{min(rows):,}" if min(rows) == max(rows) else f"{min(rows):,} to {max(rows):,}"
    return f"{count} rows of {without_counts(results[0].data)}"


def without_counts(data: str) -> str:
    """The name of the data without how much of it was read, which is said once.

    >>> without_counts("dev.conllu (407 of 596 sentences, those of 5 to 30 words)")
    'dev.conllu'
    """
    name, _, read = data.rpartition(" (")
    return name if read.endswith((" words)", " needed)")) else data


def _lines(result: RoleResult) -> list[Text]:
    name = short_name(result)
    lines = []
    if len(name) > _NAME:
        lines, name = [Text(name)], ""
    for place, head in enumerate(result.heads[:_HEADS]):
        lines.append(_uncut(_scored(head, *(("", "") if place else (name, _baseline(head, result))))))
    if len(result.heads) > _HEADS:
        lines.append(_uncut(f"{'':<{_NAME}} and {len(result.heads) - _HEADS} more", style="dim"))
    if result.copies:
        said = [f"{one.head} {'yes' if copies(one) else 'no'} {number(one.score)}" for one in result.copies]
        lines.append(Text(f"copies: {', '.join(said)}"))
    return lines


def _scored(head: HeadScore, name: str, baseline: str) -> str:
    interval = f"{number(head.low)} to {number(head.high)}"
    p = "<.001" if head.p < 0.001 else f"{head.p:.3f}"
    weighted, left = number(head.value_weighted), number(head.without_sinks)
    return _row(name, head.head, number(head.score), interval, baseline, p, weighted, left)


def _row(
    role: str, head: str, score: str, interval: str, baseline: str, p: str, weighted: str, left: str
) -> str:
    return (
        f"{role:<{_NAME}} {head:<5} {score:>5} {interval:>12} {baseline:>10} {p:>5} {weighted:>6} {left:>8}"
    ).rstrip()


def number(value: float) -> str:
    """Two decimals, or a dash for what is not known.

    >>> number(0.7371), number(float("nan"))
    ('0.74', '-')
    """
    return "-" if isnan(value) else f"{value:.2f}"


def _baseline(head: HeadScore, result: RoleResult) -> str:
    name = result.baseline_name
    if result.family in _CONTROLLED and head.control > head.baseline:
        return f"{number(head.control)} ctrl"
    offset = name.removeprefix("always ")
    named = f"at {offset}" if offset != name else _SHORT.get(name, name)
    return f"{number(head.baseline)} {named}"


def not_held(results: Sequence[RoleResult], verdict: str) -> list[Text]:
    """A line for each group: each role with the head that was best, and its baseline."""

    def shown(result: RoleResult) -> str:
        head = result.best
        bar = f", bar {number(result.least)}" if head.score < result.least else ""
        return f"{short_name(result)} {head.head} {number(head.score)} ({_baseline(head, result)}{bar})"

    kept = [result for result in results if result.verdict == verdict]
    gain: Callable[[RoleResult], float] = lambda result: result.best.score - result.best.baseline  # noqa: E731
    return [
        Text.assemble((f"{group}: ", "bold"), "; ".join(map(shown, sorted(of_group, key=gain, reverse=True))))
        for group, of_group in _groups(kept)
    ]
