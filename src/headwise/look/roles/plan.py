"""What is asked of each text, put together so that one reading of a map answers every question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import OFFSETS, Items, Question, largest_weight


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one text that are asked between the same units with the same measure.

    ``slots`` say, for each of the group's roles, where its sums go; ``member`` is 1 where a row is a role's.
    """

    question: Question
    items: Items
    chance: Float[Tensor, "item key"]
    member: Float[Tensor, "role item"]
    slots: list[tuple[str, int]]


@dataclass(frozen=True, eq=False)
class RolePlan:
    """Of one role, by text: rows, how many each fixed offset gets right, how many even attention does."""

    question: Question
    texts: list[int]
    counts: Float[Tensor, " text"]
    offsets: Float[Tensor, "text offset"]
    even: Float[Tensor, " text"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Every text with its groups, and every role with what is known before any attention is read."""

    texts: Sequence[Labelled]
    groups: list[list[Group]]
    roles: dict[str, RolePlan]


def plan_of(texts: Sequence[Labelled], questions: Sequence[Question], *, least_texts: int = 20) -> Plan:
    """Ask all questions of all texts. Roles that fewer than ``least_texts`` texts have rows for are left out.

    >>> plan_of([], []).roles
    {}
    """
    found: dict[str, dict[int, Items]] = defaultdict(dict)
    asking: dict[str, Question] = {}
    for number, text in enumerate(texts):
        for question in questions:
            for role, items in question.find(text).items():
                if len(items.rows):
                    found[role][number], asking[role] = items, question
    found = {role: items for role, items in found.items() if len(items) >= least_texts}
    chances = {
        role: dict(zip(items, asking[role].chance(list(items.values())), strict=True))
        for role, items in found.items()
    }
    roles = {role: _role_plan(asking[role], items, texts) for role, items in found.items()}
    places = {role: {number: at for at, number in enumerate(items)} for role, items in found.items()}
    groups = []
    for number in range(len(texts)):
        together: dict[tuple[int, int], list[str]] = defaultdict(list)
        for role in found:
            if number in found[role]:
                together[id(asking[role].unit), id(asking[role].measure)].append(role)
        groups.append(
            [
                _group(
                    asking[names[0]],
                    {name: found[name][number] for name in names},
                    torch.cat([chances[name][number] for name in names]),
                    [(name, places[name][number]) for name in names],
                )
                for names in together.values()
            ]
        )
    return Plan(texts, groups, roles)


def _role_plan(question: Question, found: dict[int, Items], texts: Sequence[Labelled]) -> RolePlan:
    counts = torch.tensor([float(len(items.rows)) for items in found.values()])
    offsets = torch.tensor(
        [[float(items.at_offset(offset).sum()) for offset in OFFSETS] for items in found.values()]
    )
    even = [
        _by_even_attention(question, items, texts[number])
        for number, items in found.items()
    ]
    return RolePlan(question, list(found), counts, offsets, torch.tensor(even))


def _by_even_attention(question: Question, items: Items, text: Labelled) -> float:
    """What attention scores that is even over all tokens a row sees, so that long words get more."""
    sizes = question.unit.sizes(text)
    if question.measure is not largest_weight:
        seen = text.visible(len(sizes))[items.rows] * sizes
        return float(((items.targets * sizes).sum(1) / seen.sum(1)).sum())
    of_candidates = sizes * items.candidates
    largest = (of_candidates == of_candidates.max(1, keepdim=True).values) & items.candidates
    return float((largest & items.targets).sum(1).div(largest.sum(1)).sum())


def _group(
    question: Question, of_roles: dict[str, Items], chance: Tensor, slots: list[tuple[str, int]]
) -> Group:
    items = Items(
        torch.cat([items.rows for items in of_roles.values()]),
        torch.cat([items.targets for items in of_roles.values()]),
        torch.cat([items.candidates for items in of_roles.values()]),
    )
    owner = torch.repeat_interleave(torch.tensor([len(one.rows) for one in of_roles.values()]))
    member = (owner == torch.arange(len(of_roles))[:, None]).float()
    return Group(question, items, chance, member, slots)
