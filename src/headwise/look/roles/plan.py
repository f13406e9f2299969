"""What is asked of each text, put together so that one reading of a map answers every question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import Items, Question, largest_weight

_BATCH = 16
_Key = tuple[int, int, int]
FEWEST_TEXTS = 20  # for a role: halves of ten have few signs to turn


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one text that are asked alike: between the same units, with one measure and one chance.

    ``roles`` are numbers of the plan's roles, ``owner`` says which of them each row is of, ``chance`` how
    likely each key is a target by chance.
    """

    question: Question
    items: Items
    roles: list[int]
    owner: Int[Tensor, " item"]
    chance: Float[Tensor, "item key"]

    @cached_property
    def member(self) -> Float[Tensor, "role item"]:
        """1 where a row is a role's: sums over it are sums by role."""
        return (self.owner == torch.arange(len(self.roles))[:, None]).float()


@dataclass(frozen=True, eq=False)
class RolePlan:
    """Of one role, by text: rows, and how many each rival of a head gets right."""

    name: str
    question: Question
    texts: list[int]
    counts: Float[Tensor, " text"]
    offsets: Float[Tensor, "text offset"]
    even: Float[Tensor, " text"]
    nearest: Float[Tensor, " text"]
    first: Float[Tensor, " text"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Every text with its groups, and every role with what is known before any attention is read.

    ``known`` are the names and families of all roles that the texts have rows for, asked or not, each with
    how many texts have them: of several roles of one name, those of the most frequent.
    """

    texts: Sequence[Labelled]
    groups: list[list[Group]]
    roles: list[RolePlan]
    known: dict[str, int]

    def batches(self, most: int = _BATCH) -> list[list[int]]:
        """The texts that are asked anything, by number; those of one length together: none is padded."""
        by_length: dict[int, list[int]] = defaultdict(list)
        for number, text in enumerate(self.texts):
            if self.groups[number]:
                by_length[len(text)].append(number)
        return [
            of_length[start : start + most]
            for of_length in by_length.values()
            for start in range(0, len(of_length), most)
        ]


def names_of(role: str, family: str) -> tuple[str, ...]:
    """The names that a role can be asked by: its family, what stands before a comma, and its own.

    >>> names_of("obj, dependent to head", "syntax")
    ('syntax', 'obj', 'obj, dependent to head')
    """
    return family, role.partition(", ")[0], role


def plan_of(
    texts: Sequence[Labelled],
    questions: Sequence[Question],
    *,
    only: Collection[str] = (),
    least_texts: int = FEWEST_TEXTS,
) -> Plan:
    """Ask all questions of all texts, or those of the names or families that are in ``only``.

    Roles that fewer than ``least_texts`` texts have rows for are left out.

    >>> plan_of([], []).roles
    []
    """
    found = [_found(text, questions) for text in texts]
    where: dict[str, list[int]] = defaultdict(list)
    asking: dict[str, Question] = {}
    for number, of_text in enumerate(found):
        for role, (question, _) in of_text.items():
            where[role].append(number)
            asking[role] = question
    enough = [role for role in where if len(where[role]) >= least_texts]
    called = {role: names_of(role, asking[role].family) for role in where}
    names = [role for role in enough if not only or not set(only).isdisjoint(called[role])]
    numbers = {role: number for number, role in enumerate(names)}
    groups = _groups(found, numbers)
    by_text: dict[int, list[tuple[Tensor, ...]]] = defaultdict(list)
    for asked, text in zip(groups, texts, strict=True):
        for group in asked:
            member = group.member
            offsets = member @ group.items.at_offsets().float()
            even = member @ _by_even_attention(group, text)
            nearest = member @ group.items.at_nearest().float()
            first = member @ group.items.at_first().float()
            for place, at in enumerate(group.roles):
                by_text[at].append(
                    (member[place].sum(), offsets[place], even[place], nearest[place], first[place])
                )
    roles = [
        RolePlan(role, asking[role], where[role], *map(torch.stack, zip(*by_text[number], strict=True)))
        for number, role in enumerate(names)
    ]
    known = most_texts((name, len(where[role])) for role in where for name in called[role])
    return Plan(texts, groups, roles, known)


def most_texts(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The largest number that comes with each name.

    >>> most_texts([("syntax", 12), ("obj", 12), ("syntax", 30)])
    {'syntax': 30, 'obj': 12}
    """
    found: dict[str, int] = {}
    for name, count in counts:
        found[name] = max(count, found.get(name, 0))
    return found


def _found(text: Labelled, questions: Sequence[Question]) -> dict[str, tuple[Question, Items]]:
    return {
        role: (question, items)
        for question in questions
        for role, items in question.find(text).items()
        if len(items.rows)
    }


def _groups(found: Sequence[dict[str, tuple[Question, Items]]], numbers: dict[str, int]) -> list[list[Group]]:
    """Rows that are asked alike, stacked; chances are made of all texts together, as they may need them."""
    alike: dict[_Key, list[tuple[int, Question, Items, list[int], Tensor]]] = defaultdict(list)
    for text, of_text in enumerate(found):
        together: dict[_Key, list[tuple[int, Question, Items]]] = defaultdict(list)
        for role, (question, items) in of_text.items():
            if role in numbers:
                key = id(question.unit), id(question.measure), id(question.chance)
                together[key].append((numbers[role], question, items))
        for key, parts in together.items():
            roles = [role for role, _, _ in parts]
            owner = torch.repeat_interleave(torch.tensor([len(items.rows) for _, _, items in parts]))
            stacked = Items(
                torch.cat([items.rows for _, _, items in parts]),
                torch.cat([items.targets for _, _, items in parts]),
                torch.cat([items.candidates for _, _, items in parts]),
            )
            alike[key].append((text, parts[0][1], stacked, roles, owner))
    groups: list[list[Group]] = [[] for _ in found]
    for kind in alike.values():
        of_roles = [torch.tensor(roles)[owner] for _, _, _, roles, owner in kind]
        chances = kind[0][1].chance([items for _, _, items, _, _ in kind], of_roles)
        for (text, question, items, roles, owner), chance in zip(kind, chances, strict=True):
            groups[text].append(Group(question, items, roles, owner, chance))
    return groups


def _by_even_attention(group: Group, text: Labelled) -> Float[Tensor, " item"]:
    """What attention scores that is even over all tokens a row sees, so that long words get more."""
    items, sizes = group.items, group.question.unit.sizes(text)
    if group.question.measure is not largest_weight:
        chance = torch.zeros_like(group.chance)
        even = text.visible(len(sizes))[items.rows] * sizes
        return group.question.measure((even / even.sum(1, keepdim=True))[None], items, chance)[0][0]
    of_candidates = sizes * items.candidates
    largest = (of_candidates == of_candidates.max(1, keepdim=True).values) & items.candidates
    return (largest & items.targets).sum(1) / largest.sum(1)
