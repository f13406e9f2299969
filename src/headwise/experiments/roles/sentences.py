"""The tutorials' four sentences, each with a verdict in plain words from what the battery found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwise.experiments.roles.battery import HeadScore, RoleResult
from headwise.look.roles.coreference import MENTIONS_OTHER_WORD, PRONOUNS, PRONOUNS_OTHER_WORD

SYNTAX = "One head watches syntax"
COREFERENCE = "One head watches coreference"
MEANING = "One head watches meaning"
POSITION = "One head watches position"
_NAMED = 3  # relations with figures; the others by name
_NAMED_POSITION = 5


def four_sentences(results: Sequence[RoleResult], left_out: Mapping[str, str]) -> dict[str, str]:
    """What the tutorials say, and whether it is so. ``left_out`` says by family why it was not asked.

    >>> four_sentences([], {})["One head watches meaning"]
    'not asked'
    """
    verdicts = {
        SYNTAX: ("syntax", _syntax),
        COREFERENCE: ("coreference", _coreference),
        MEANING: ("meaning", _meaning),
        POSITION: ("position", _position),
    }
    found = {}
    for sentence, (family, verdict) in verdicts.items():
        of_family = [result for result in results if result.family == family]
        why = f": {left_out[family].rstrip('.')}" if family in left_out else ""
        found[sentence] = verdict(of_family) if of_family else f"not asked{why}"
    return found


def _syntax(results: Sequence[RoleResult]) -> str:
    held = _by_relation([result for result in results if result.verdict == "held"])
    position = _by_relation([result for result in results if result.verdict == "position"])
    are = _position_only([result for name, result in position.items() if name not in held])
    if not held:
        return f"no: {_best(results)}{'; ' if are else ''}{are}"
    ordered = sorted(held.values(), key=lambda result: -_gain(result.heads[0]))
    shown = [f"{_relation(result)} ({_figures(result)})" for result in ordered[:_NAMED]]
    others = sorted(_relation(result) for result in ordered[_NAMED:])
    parts = [
        f"yes for {_listed(shown)}",
        f"also for {_listed(others)}" if others else "",
        are,
        _shared(results),
    ]
    return "; ".join(part for part in parts if part)


def _position_only(results: Sequence[RoleResult]) -> str:
    """By name the most frequent; the others as a number."""
    shown = sorted(results, key=lambda result: (-result.rows, result.role))[:_NAMED_POSITION]
    if not shown:
        return ""
    names = [_relation(result) for result in shown]
    if len(results) > len(shown):
        names.append(f"{len(results) - len(shown)} more")
    return f"{_listed(names)} {'is' if len(names) == 1 else 'are'} position only"


def _by_relation(results: Sequence[RoleResult]) -> dict[str, RoleResult]:
    """Of both directions of a relation the one that stands out more."""
    found: dict[str, RoleResult] = {}
    for result in sorted(results, key=lambda result: _gain(_head(result))):
        found[_relation(result)] = result
    return found


def _shared(results: Sequence[RoleResult]) -> str:
    """Whether it is one head: the sentence says so."""
    holders = {_relation(result): set[str]() for result in results if result.heads}
    for result in results:
        if result.heads:
            holders[_relation(result)] |= {head.head for head in result.heads}
    if len(holders) < 2:
        return ""
    heads = set[str]().union(*holders.values())
    of_all = sorted(set.intersection(*holders.values()))
    return (
        f"one head, {of_all[0]}, holds them all"
        if of_all
        else f"not one head but {len(heads)} share these relations"
    )


def _coreference(results: Sequence[RoleResult]) -> str:
    by_role = {result.role: result for result in results}
    held = {role: result for role, result in by_role.items() if result.verdict == "held"}
    without = [role for role in (PRONOUNS_OTHER_WORD, MENTIONS_OTHER_WORD) if role in held]
    names = {PRONOUNS_OTHER_WORD: "pronouns", MENTIONS_OTHER_WORD: "all mentions"}
    figures = _listed([f"{names[role]} ({_figures(held[role])})" for role in without])
    if PRONOUNS in held:
        start = f"for pronouns ({_figures(held[PRONOUNS])})"
        if without:
            not_all = [names[role] for role in names if role in by_role and role not in held]
            but = f", but not for {_listed(not_all)}" if not_all else ""
            return f"yes {start}; it survives leaving out antecedents of the same word, for {figures}{but}"
        if by_role.keys() & names.keys():
            return (
                f"not shown: {start} one does, but no head holds it once antecedents of the same word are "
                "left out, so it may look for the same word"
            )
        return f"not settled: {start} one does; antecedents of another word were not asked about"
    if without:
        return f"yes, with antecedents of the same word left out, for {figures}"
    return f"no: {_best(results)}"


def _meaning(results: Sequence[RoleResult]) -> str:
    result = max(results, key=lambda result: _head(result).score)
    head = _head(result)
    figures = (
        f"from a word of two senses it gives {head.score:.2f} of its weight to the word that settles which, "
        f"and {head.control:.2f} to a control word in its place"
    )
    if result.verdict == "held":
        more = f"{len(result.heads)} heads do, " if len(result.heads) > 1 else ""
        return f"yes, in that {head.head} looks at related words ({more}p = {head.p:.2g}): {figures}"
    return f"no: no head is shown to look at related words; of the best, {head.head}, {figures}"


def _position(results: Sequence[RoleResult]) -> str:
    held = [result for result in results if result.verdict == "held"]
    if not held:
        return f"no: {_best(results)}"
    held.sort(key=lambda result: -_gain(result.heads[0]))
    shown = [f"{result.role} ({_figures(result)})" for result in held[:_NAMED]]
    others = f"; also for {_listed([result.role for result in held[_NAMED:]])}" if held[_NAMED:] else ""
    return f"yes for {_listed(shown)}{others}"


def _best(results: Sequence[RoleResult]) -> str:
    result = max(results, key=lambda result: _gain(result.best))
    return f"the best is {result.role} ({_figures(result)})"


def _head(result: RoleResult) -> HeadScore:
    return result.heads[0] if result.heads else result.best


def _gain(head: HeadScore) -> float:
    return head.score - max(head.baseline, head.control)


def _figures(result: RoleResult) -> str:
    head = _head(result)
    distance = result.baseline_name.startswith("always")
    rival = "a fixed distance" if distance else result.baseline_name
    return f"{head.head}: {head.score:.2f} where {rival} gets {head.baseline:.2f}"


def _relation(result: RoleResult) -> str:
    return result.role.partition(",")[0]


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])
