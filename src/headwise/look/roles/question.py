"""A role as a question about a text: which rows it asks, and where each of them should look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.look.roles.labelled import Labelled

OFFSETS = tuple(range(-5, 6))


@dataclass(frozen=True, eq=False)
class Items:
    """The rows that a role asks of one text, where they should look, and where they could look instead.

    ``candidates`` hold the targets too. Rows and keys are tokens, or words, as the role says.

    >>> items = Items(torch.tensor([1]), torch.tensor([[True, False]]), torch.tensor([[True, True]]))
    >>> [offset for offset, right in zip(OFFSETS, items.at_offsets()[0]) if right]
    [-1]
    """

    rows: Int[Tensor, " item"]
    targets: Bool[Tensor, "item key"]
    candidates: Bool[Tensor, "item key"]

    def at_offsets(self) -> Bool[Tensor, "item offset"]:
        """Whether a head that looks so many places on, and nowhere else, looks at a target."""
        places = self.rows[:, None] + torch.tensor(OFFSETS)
        last = self.targets.shape[1] - 1
        inside = (places >= 0) & (places <= last)
        return self.targets.gather(1, places.clamp(0, last)) & inside

    def at_nearest(self) -> Bool[Tensor, " item"]:
        """Whether the nearest candidate is a target: the first of two that are as near."""
        places = torch.arange(self.targets.shape[1])
        far = (places - self.rows[:, None]).abs().masked_fill(~self.candidates, len(places))
        return self.targets.gather(1, far.argmin(1, keepdim=True))[:, 0]

    def at_first(self) -> Bool[Tensor, " item"]:
        """Whether the first candidate of all is a target: what a head finds that rests on the first token."""
        return self.targets.gather(1, self.candidates.int().argmax(1, keepdim=True))[:, 0]

    def at(self, some: slice) -> Items:
        """Some of the items."""
        return Items(self.rows[some], self.targets[some], self.candidates[some])


def with_a_choice(items: Items) -> Items:
    """The items with a candidate that is no target: without one, whatever a head does is right.

    >>> items = Items(torch.tensor([1, 1]), torch.eye(2, dtype=torch.bool), torch.tensor([[True, False]] * 2))
    >>> with_a_choice(items).targets
    tensor([[False,  True]])
    """
    kept = (items.candidates & ~items.targets).any(1)
    return Items(items.rows[kept], items.targets[kept], items.candidates[kept])


def items_from(targets: Bool[Tensor, "row key"], candidates: Bool[Tensor, "row key"]) -> Items:
    """The rows that have a target and something else to look at, from a matrix of all rows.

    >>> targets = torch.tensor([[False, True], [False, False]])
    >>> items_from(targets, torch.ones(2, 2, dtype=torch.bool)).rows
    tensor([0])
    """
    rows = targets.any(1).nonzero()[:, 0]
    return with_a_choice(Items(rows, targets[rows], (candidates | targets)[rows]))


Weights = Float[Tensor, "head item key"]
Measured = tuple[Float[Tensor, "head item"], Float[Tensor, "head item"]]


def share_of_weight(weights: Weights, items: Items, chance: Float[Tensor, "item key"]) -> Measured:
    """The weight on the targets, and what targets chosen by ``chance`` would get.

    >>> items = items_from(torch.tensor([[True, False]]), torch.tensor([[True, True]]))
    >>> share_of_weight(torch.tensor([[[0.9, 0.1]]]), items, torch.tensor([[0.5, 0.5]]))
    (tensor([[0.9000]]), tensor([[0.5000]]))
    """
    return (weights * items.targets).sum(-1), (weights * chance).sum(-1)


def share_among(weights: Weights, items: Items, chance: Float[Tensor, "item key"]) -> Measured:
    """The same, of what goes to candidates only; 0 where none gets anything.

    >>> items = items_from(torch.tensor([[True, False, False]]), torch.tensor([[True, True, False]]))
    >>> share_among(torch.tensor([[[0.2, 0.2, 0.6]]]), items, torch.tensor([[0.5, 0.5, 0.0]]))
    (tensor([[0.5000]]), tensor([[0.5000]]))
    """
    of_candidates = weights * items.candidates
    total = of_candidates.sum(-1, keepdim=True)
    return share_of_weight(of_candidates / total.where(total > 0, 1.0), items, chance)


def largest_weight(weights: Weights, items: Items, chance: Float[Tensor, "item key"]) -> Measured:
    """1 where the largest weight among the candidates is on a target, and how often chance makes it one.

    >>> items = items_from(torch.tensor([[True, False]]), torch.tensor([[True, True]]))
    >>> largest_weight(torch.tensor([[[0.4, 0.6]]]), items, torch.tensor([[0.25, 0.75]]))
    (tensor([[0.]]), tensor([[0.7500]]))
    """
    heads = len(weights)
    best = weights.masked_fill(~items.candidates, -1.0).argmax(-1)[..., None]
    hit = items.targets.expand(heads, -1, -1).gather(-1, best)[..., 0].to(weights.dtype)
    return hit, chance.expand(heads, -1, -1).gather(-1, best)[..., 0]


def evenly(texts: Sequence[Items], roles: Sequence[Tensor]) -> list[Float[Tensor, "item key"]]:
    """Chance that knows nothing: every candidate is a target as often as any other.

    >>> evenly([items_from(torch.tensor([[True, False]]), torch.tensor([[True, True]]))], [torch.tensor([0])])
    [tensor([[0.5000, 0.5000]])]
    """
    return [items.candidates * (items.targets.sum(1) / items.candidates.sum(1))[:, None] for items in texts]


def by_distance(texts: Sequence[Items], roles: Sequence[Tensor]) -> list[Float[Tensor, "item key"]]:
    """Chance that knows distances: targets are dealt out anew, each as far away as some target of its role.

    ``roles`` say, for each text, which role each row is of.

    >>> items = items_from(torch.tensor([[True, False], [True, False]]), torch.ones(2, 2, dtype=torch.bool))
    >>> by_distance([items], [torch.tensor([0, 0])])  # of two targets one is at -1, and one at 0
    [tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])]
    """
    widest = max(items.targets.shape[1] for items in texts)
    size = 2 * widest + 1
    most = 1 + max(int(role.max()) for role in roles)
    count = torch.zeros(most * size)
    places = []
    for items, role in zip(texts, roles, strict=True):
        offset = torch.arange(items.targets.shape[1]) - items.rows[:, None] + widest
        places.append(offset + role[:, None] * size)
        count += torch.bincount(places[-1][items.targets], minlength=len(count))
    found = []
    for items, place in zip(texts, places, strict=True):
        weights = count[place] * items.candidates
        found.append(weights / weights.sum(1, keepdim=True) * items.targets.sum(1, keepdim=True))
    return found


@dataclass(frozen=True)
class Unit:
    """Between what attention is read: tokens, or words."""

    read: Callable[[Tensor, Labelled], Tensor]
    sizes: Callable[[Labelled], Tensor]


def _of_words(weights: Float[Tensor, "head token token"], text: Labelled) -> Float[Tensor, "head word word"]:
    pieces = text.pieces
    return (pieces / pieces.sum(1, keepdim=True)) @ (weights @ pieces.T)


TOKENS = Unit(lambda weights, text: weights, lambda text: torch.ones(len(text)))
WORDS = Unit(_of_words, lambda text: text.pieces.sum(1))
"""Attention between words: the sum over the attended word's pieces, the mean over the attending one's."""


@dataclass(frozen=True)
class Question:
    """One role, or several of a kind: what is asked, of which texts, and what a head must show to hold it.

    ``find`` gives the items of a text by the name of the role. A head holds a role if its score is at least
    ``least`` and by ``margin`` above the best a head can have that knows only distances (where ``offsets``
    are a rival and not the role itself), or nothing.
    """

    family: str
    asks: str
    find: Callable[[Labelled], Mapping[str, Items]]
    unit: Unit = TOKENS
    measure: Callable[[Weights, Items, Tensor], Measured] = share_of_weight
    chance: Callable[[Sequence[Items], Sequence[Tensor]], list[Tensor]] = evenly
    least: float = 0.5
    margin: float = 0.1
    offsets: bool = True
