"""The whole list of properties, run on a subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwise.check.applying import (
    of_batch,
    of_cache,
    of_causality,
    of_effect,
    of_empty_rows,
    of_equivariance,
    of_evaluation,
    of_finite,
    of_heads,
    of_history,
    of_length,
    of_lifecycle,
    of_padding,
    of_paths,
    of_receptive_field,
    of_shift,
)
from headwise.check.checked import Outcome
from headwise.check.claims import Claims
from headwise.check.properties.evaluation import UNSTEADY
from headwise.check.report import not_checked
from headwise.check.subjects.subject import Subject
from headwise.core.errors import HeadwiseError

OTHERS = "all others"
PROPERTIES: dict[str, Callable[[Subject, Claims], list[Outcome]]] = {
    "finite": of_finite,
    "evaluation": of_evaluation,
    "batch": of_batch,
    "history": of_history,
    "causality": of_causality,
    "receptive-field": of_receptive_field,
    "order": of_equivariance,
    "shift": of_shift,
    "padding": of_padding,
    "empty-rows": of_empty_rows,
    "cache": of_cache,
    "paths": of_paths,
    "effect": of_effect,
    "lifecycle": of_lifecycle,
    "length": of_length,
    "heads": of_heads,
}

_MEMBERS = {  # properties that are checked together
    "right-padding": "padding",
    "left-padding": "padding",
    "pad-content": "padding",
    "scale": "heads",
    "kv-order": "heads",
}


def examine(subject: Subject, claims: Claims, only: tuple[str, ...]) -> list[Outcome]:
    """The outcome of every property that applies, or of the one without which no other can be told."""
    first: dict[str, list[Outcome]] = {}
    for name in ("finite", "evaluation"):
        first[name] = PROPERTIES[name](subject, claims)
        outcome = first[name][0]
        if outcome.failed and (name == "finite" or outcome.report.failing.startswith(UNSTEADY)):
            why = "every other property compares outputs"
            return [outcome, Outcome(not_checked(OTHERS, why, "Repair this one first"), must=False)]
    outcomes: list[Outcome] = []
    for name, run in PROPERTIES.items():
        members = [member for member, group in _MEMBERS.items() if group == name and member in only]
        wanted = not only or name in only
        if (subject.groups and name not in subject.groups) or not (wanted or members):
            continue
        found = first[name] if name in first else run(subject, claims)
        outcomes += [each for each in found if wanted or each.name.replace(" ", "-") in members]
    return outcomes


def chosen(only: str | Iterable[str]) -> tuple[str, ...]:
    """The names of properties, as `examine` takes them. Raises HeadwiseError for a name that is none.

    >>> chosen("causality right-padding")
    ('causality', 'right-padding')
    """
    words = only.replace(",", " ").split() if isinstance(only, str) else list(only)
    names = tuple(word.replace("_", "-").replace(" ", "-") for word in words)
    known = [*PROPERTIES, *_MEMBERS]
    for name in names:
        if name not in known:
            raise HeadwiseError(
                who="only",
                what="a property",
                expected=f"one of {', '.join(sorted(known))}",
                got=repr(name),
                why="There is none of that name",
                do="Choose one of these, or leave it out for all",
            )
    return names
