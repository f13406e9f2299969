"""Alignment: does a head's largest weight fall where gold links say that it should?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core import AttentionMap, HeadwiseError
from headwise.look.roles.best_of_heads import DRAWS, best_by_chance, orders, p_of_best


@dataclass(frozen=True, eq=False)
class LinkedText:
    """What all heads chose in one text, and where the links say they should: both count keys from 0.

    ``chosen`` has a row for each head, all layers together; ``sure`` and ``possible`` are pairs of a row of
    ``chosen`` and a key. Sure links are possible ones too, said or not. Under the null, links are dealt anew
    among the rows of one ``group`` number; all rows are in one where it is left out.
    """

    chosen: Int[Tensor, "heads rows"]
    sure: Int[Tensor, "sure 2"]
    possible: Int[Tensor, "possible 2"] | None = None
    group: Int[Tensor, " rows"] | None = None


@dataclass(frozen=True, eq=False)
class Alignment:
    """Of every head: the share of linked rows whose choice is a sure link, and the alignment error rate.

    ``accuracy`` is better high, ``error_rate`` (0 to 1) better low. Each comes with its standard error and a
    one-sided p against the best of all heads on links that are dealt anew. ``rows`` counts the linked ones.
    """

    accuracy: Float[Tensor, " heads"]
    accuracy_error: Float[Tensor, " heads"]
    accuracy_p: Float[Tensor, " heads"]
    error_rate: Float[Tensor, " heads"]
    error_rate_error: Float[Tensor, " heads"]
    error_rate_p: Float[Tensor, " heads"]
    rows: int
    texts: int


def chosen_keys(
    attention: AttentionMap,
    queries: Int[Tensor, " rows"] | None = None,
    *,
    keys: Bool[Tensor, " key"] | None = None,
) -> Int[Tensor, "batch heads rows"]:
    """The key with each query's largest weight among those marked, the first of equal ones.

    -1 where a query gives the marked keys no weight at all.

    >>> x = torch.eye(3)[None, None]
    >>> attention = AttentionMap(x, x)
    >>> chosen_keys(attention), chosen_keys(attention, torch.tensor([1]), keys=torch.tensor([1, 0, 1]).bool())
    (tensor([[[0, 1, 2]]]), tensor([[[0]]]))
    """
    parts = [torch.zeros(*attention.shape[:2], 0, dtype=torch.long, device=attention.q.device)]
    for piece in attention.pieces(queries):
        weights = piece.weights if keys is None else piece.weights * keys[piece.columns]
        if weights.shape[-1] == 0:
            parts.append(piece.rows.new_full(weights.shape[:-1], -1))
            continue
        first = weights.argmax(-1)
        nothing = weights.gather(-1, first[..., None])[..., 0] == 0
        parts.append((first + piece.columns.start).masked_fill(nothing, -1))
    return torch.cat(parts, dim=2)


def alignment(texts: Sequence[LinkedText], *, draws: int = DRAWS, seed: int = 0) -> Alignment:
    """How well the choices of all heads agree with gold links, over texts taken together.

    ``accuracy = |A and S| / linked rows`` counts rows with a sure link; the error rate of the links ``A``
    that a head makes is ``AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)``: Och & Ney 2003, Computational
    Linguistics 29(1), section 5.1. Standard errors leave out one text at a time, or one row where there is
    one text only (Efron & Stein 1981, jackknife).

    Raises HeadwiseError where no text has a sure link, or a link names a row that its text does not have, or
    a key below 0.

    >>> right, wrong = [0, 1, 2], [1, 2, 0]
    >>> text = LinkedText(torch.tensor([right, wrong]), sure=torch.tensor([[0, 0], [1, 1], [2, 2]]))
    >>> found = alignment([text])
    >>> found.accuracy.tolist(), found.error_rate.tolist()
    ([1.0, 0.0], [0.0, 1.0])
    """
    if not sum(len(text.sure) for text in texts):
        raise HeadwiseError(
            who="alignment",
            what="the links",
            expected="at least one sure link in the texts",
            got=f"none in {len(texts)} texts",
            why="There is nothing that a head could get right",
            do="Give links as pairs of a row of chosen and a key",
        )
    for number, text in enumerate(texts):
        _check_links(text, number)
    gold = [_Gold(text) for text in texts]
    starts = torch.tensor([0, *(text.chosen.shape[1] for text in texts)]).cumsum(0).tolist()

    def figures(order: Tensor) -> Tensor:
        own = [order[start:stop] - start for start, stop in pairwise(starts)]
        counts = [links.counts(rows).sum(-1) for links, rows in zip(gold, own, strict=True)]
        return _figures(torch.stack(counts).sum(0))

    counts = [links.counts(torch.arange(links.rows)) for links in gold]
    units = torch.stack([c.sum(-1) for c in counts]) if len(texts) > 1 else counts[0].movedim(-1, 0)
    value, error = _figures(units.sum(0)), _jackknife(units)
    p = p_of_best(value, best_by_chance(figures, _dealt(texts, draws, seed)))
    rows = int(sum((links.links > 0).sum() for links in gold))
    return Alignment(value[0], error[0], p[0], 0.0 - value[1], error[1], p[1], rows, len(texts))


def _check_links(text: LinkedText, number: int) -> None:
    rows = text.chosen.shape[1]
    for links in (text.sure, text.possible):
        for row, key in [] if links is None else links.tolist():
            if not 0 <= row < rows or key < 0:
                raise HeadwiseError(
                    who="alignment",
                    what=f"a link of text {number}",
                    expected=f"a row from 0 to {rows - 1} and a key of 0 or more",
                    got=str((row, key)),
                    why="Links are pairs of a row of chosen and a key, both counted from 0",
                    do="Correct the link, or leave it out",
                )


class _Gold:
    """One text's links as numbers that can be looked up fast."""

    def __init__(self, text: LinkedText) -> None:
        possible = text.sure if text.possible is None else torch.cat([text.sure, text.possible])
        self.text, self.rows = text, text.chosen.shape[1]
        named = torch.cat([text.chosen.flatten(), possible[:, 1]])
        self.keys = int(named.max()) + 1 if len(named) else 1
        self.sure, self.possible = (x[:, 0] * self.keys + x[:, 1] for x in (text.sure, possible))
        self.links = torch.bincount(torch.unique(self.sure) // self.keys, minlength=self.rows)

    def counts(self, order: Tensor) -> Tensor:
        """[5, heads, rows]: right, possible, made, sure links and linked rows, with links of row order[i]."""
        made = self.text.chosen >= 0
        links = order * self.keys + self.text.chosen
        right, possible = (torch.isin(links, gold) & made for gold in (self.sure, self.possible))
        sure = self.links[order].expand_as(made)
        return torch.stack([right, possible, made, sure, sure > 0]).double()


def _figures(counts: Tensor) -> Tensor:
    """Accuracy and minus the error rate, so that more is better in both."""
    right, possible, made, sure, linked = counts
    return torch.stack([right / linked, (right + possible) / (made + sure) - 1])


def _jackknife(units: Tensor) -> Tensor:
    """``sqrt((n - 1) / n sum_i (f_i - mean f)^2)``, ``f_i`` the figures without unit i, if those exist."""
    without = torch.stack([_figures(rest) for rest in units.sum(0) - units], dim=-1)
    known = without.isfinite()
    n = known.double().sum(-1)
    mean = without.nan_to_num(0.0, 0.0, 0.0).sum(-1) / n
    squares = (without - mean[..., None]).square().masked_fill(~known, 0.0).sum(-1)
    return ((n - 1) / n * squares).sqrt()


def _dealt(texts: Sequence[LinkedText], draws: int, seed: int) -> Iterator[Tensor]:
    """Orders of the rows of all texts, each row staying in its text and group."""
    group, last = [], 0
    for text in texts:
        own = torch.zeros(text.chosen.shape[1], dtype=torch.long) if text.group is None else text.group
        group.append(torch.unique(own, return_inverse=True)[1] + last)
        last = int(group[-1].max()) + 1 if len(own) else last
    joined = torch.cat(group)
    home = joined.argsort(stable=True)
    for order in orders(len(joined), draws, seed):
        dealt = torch.empty_like(order)
        dealt[home] = order[joined[order].argsort(stable=True)]
        yield dealt
