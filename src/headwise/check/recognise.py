"""Works out what kind of thing is under test, and makes it ready to be asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from headwise.check.applying import seen
from headwise.check.checked import Checked, Outcome
from headwise.check.claims import Claims
from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.subjects.attends import of_heads
from headwise.check.subjects.explicit import as_called
from headwise.check.subjects.sequences import of_tokens, of_vectors
from headwise.check.subjects.signature import Thing, takes_query_key_value
from headwise.check.subjects.strength import visible
from headwise.check.subjects.subject import ROUTED, Subject, copied, numbers
from headwise.check.subjects.widths import tokens
from headwise.check.suite import OTHERS, examine
from headwise.core.errors import HeadwiseError

_LARGE = 10_000_000  # numbers in a module from which on threads help


def recognised(
    thing: Thing, *, call: Callable[..., Tensor] | None = None, inputs: Inputs | None = None, who: str
) -> Subject:
    """The subject that a layer, a function or a model of tokens is.

    Raises HeadwiseError if it cannot be called.

    >>> recognised(nn.Linear(4, 4), who="layer").assumed
    ['takes vectors of width 4 (in_features)', 'called as module(x)']
    """
    name = name_of(thing)
    if not callable(thing):
        raise HeadwiseError(
            who=who,
            what="what is checked",
            expected="a module or a function",
            got=f"{type(thing).__name__}",
            why="It is called with sequences",
            do="Pass the layer itself, or a function of x",
        )
    if call is not None:
        return as_called(thing, name, call, inputs, who=who)
    if takes_query_key_value(thing) and not _has_weights(thing):
        subject = of_heads(thing, name)
        if subject is not None:
            return subject
    takes_tokens = (
        tokens(thing) is not None if inputs is None else not inputs.make(1, 1, 0).is_floating_point()
    )
    find = of_tokens if takes_tokens else of_vectors
    return find(thing, name, inputs, who=who)


def strengthened(subject: Subject) -> Subject:
    """The same, with larger weights where places would hardly meet, and with the longest length it takes."""
    if isinstance(subject.thing, nn.Module) and subject.untouched is not None:
        larger, words = visible(
            subject.thing, lambda thing, x: subject.call(thing, x, None, None), subject.inputs
        )
        if words:
            subject.thing, subject.untouched = larger, copied(larger)
            subject.assumed.append(words)
            subject.make = None
    if subject.has(ROUTED) and isinstance(subject.inputs, Vectors | Tokens):
        subject.inputs = replace(subject.inputs, regroups=subject.depth)
        subject.lives = tuple(step for step in subject.lives if step != "cast")
        subject.assumed.append(
            "it sends tokens to experts, where rounding may choose another: a cast is not tried"
        )
    subject.longest = longest(subject)
    if subject.longest is not None and subject.longest < 45:
        subject.assumed.append(f"takes at most {subject.longest} places")
    return subject


@torch.no_grad()
def longest(subject: Subject) -> int | None:
    """The longest sequence it takes, None if it takes 400 places."""

    def takes(places: int) -> bool:
        try:
            subject.f(subject.inputs.make(2, places, seed=0))
        except Exception:
            return False
        return True

    for places in (400, 120, 45):
        if takes(places):
            return None if places == 400 else places
    known, refused = 1, 45
    while refused - known > 1:
        middle = (known + refused) // 2
        known, refused = (middle, refused) if takes(middle) else (known, middle)
    return known


def conclude(parts: dict[str, Subject], claims: Claims, only: tuple[str, ...]) -> Checked:
    """All outcomes of all parts, those of a named part under its name."""
    outcomes: list[Outcome] = []
    assumed: list[str] = []
    found: list[str] = []
    for part, subject in parts.items():
        claimed = claims if subject.claimed is None else subject.claimed
        told = examine(subject, claimed, only)
        outcomes += [outcome.named(part) for outcome in told]
        words = "" if subject.groups or only or told[-1].name == OTHERS else seen(subject, claimed)
        words = "" if any(outcome.failed and outcome.says(words) for outcome in told) else words
        found += [f"{part}: {words}" if part else words] if words else []
        assumed += [f"{part}: {words}" if part else words for words in subject.assumed]
    first = next(iter(parts.values()))
    calls = sum(subject.calls for subject in parts.values())
    return Checked(first.name, tuple(assumed), tuple(found), claims.words, tuple(outcomes), calls)


def name_of(thing: Thing) -> str:
    """What to call it in a table.

    >>> name_of(nn.Linear(2, 2)), name_of(name_of)
    ('Linear', 'name_of')
    """
    return getattr(thing, "__name__", type(thing).__name__)


@contextmanager
def quiet_evaluation(thing: Thing) -> Iterator[None]:
    """The module in evaluation for a while, foreign warnings unheard, and seeds left as they were.

    A small one is asked on one thread: its steps are so short that threads wait for each other, on a busy
    machine for twenty times as long as the steps take.
    """
    modes = [(module, module.training) for module in thing.modules()] if isinstance(thing, nn.Module) else []
    threads = torch.get_num_threads()
    try:
        if numbers(thing) < _LARGE:
            torch.set_num_threads(1)
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            if isinstance(thing, nn.Module):
                thing.eval()
            yield
    finally:
        torch.set_num_threads(threads)
        for module, training in modes:
            module.training = training


def _has_weights(thing: Thing) -> bool:
    return isinstance(thing, nn.Module) and any(True for _ in thing.parameters())
