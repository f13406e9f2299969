"""Removes the heads that hold a role and measures the thing that the role is about, beside random heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.experiments.inside.ablating import random_draws
from headwise.experiments.inside.outcome import first_tensor, predicts_next_token
from headwise.experiments.progress import each
from headwise.experiments.roles.battery import Confirmation, RoleResult
from headwise.experiments.roles.halves import first_half
from headwise.experiments.roles.probes import Probe
from headwise.look import Head, ablate
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.links import COPIES, INDUCTION
from headwise.look.roles.question import WORDS
from headwise.models import TextModel

MOST_TEXTS = 100
LOSS = "loss of the tokens after the rows asked, nats per token"
LOSS_OF_REPEATS = "loss on the second copy of random tokens, nats per token"
CHANGE = "change of the output at the rows asked, in changes at the other rows"
CHANGE_ALONE = "change of the output at the rows asked, as a share of its length"
_FEWEST_OTHERS = 0.1  # of the rows asked; with fewer there is nothing to compare with

_Measure = tuple[str, float, Callable[[], float]]  # what, before anything is removed, and now


@dataclass(frozen=True, eq=False)
class _Asked:
    """A text and which of its tokens a role asks."""

    text: Labelled
    rows: Bool[Tensor, " token"]

    @property
    def others(self) -> Bool[Tensor, " token"]:
        return ~self.rows & ~self.text.special


@torch.no_grad()
def confirmation_of(
    model: TextModel,
    result: RoleResult,
    probe: Probe,
    sizes: Sequence[int],
    *,
    draws: int = 5,
    seed: int = 0,
    most: int = 10,
) -> Confirmation | None:
    """What changes without the first heads of a role, up to ``most``; None without such a head or any row.

    ``sizes`` is how many heads each layer has. Heads are replaced by zero, then as many others of the same
    layers, or all there are, that do not hold the role, drawn ``draws`` times. Measured is, on up to 100
    texts of the second half:

    - of a language model, the mean loss of the tokens predicted at the rows that the role asks: what their
      heads gather there is used for. On random tokens that repeat, that is the loss on the second copy;
    - of any other model, ``|h' - h| / |h|`` of its output, the mean over the rows asked by the mean over the
      other rows of words: 1 if they suffer alike, as where nothing is removed. Where a role asks nearly all
      rows there are no others, and it is the change itself.

    >>> from headwise.experiments.roles.battery import HeadScore
    >>> from headwise.experiments.roles.repeats import repeats
    >>> from headwise.look.roles.links import COPIES_ASKED
    >>> from headwise.models import open_model
    >>> model = open_model()
    >>> score = HeadScore("0.3", 0.9, 0.8, 1.0, 0.1, 0.9, 0.9, 0.9, 0.1, 0.1, 0.001, held=True)
    >>> result = RoleResult("same token in a repeat", "", "", "", 1, 1, "", "", 0, 0, score, [score], "held")
    >>> texts, _ = repeats(model, causal=False)
    >>> found = confirmation_of(model, result, Probe("", texts[:2], [COPIES_ASKED]), [12] * 6, draws=2)
    >>> found.before, len(found.random)
    (1.0, 2)
    """
    holders = [Head.parse(score.head) for score in result.heads]
    chosen = holders[:most]
    predicts = predicts_next_token(model.network)
    asked = _rows_of(result.role, probe, predicts)
    if not chosen or not asked:
        return None
    what, before, measure = _losses(model, asked) if predicts else _changes(model, asked)
    if what == LOSS and result.role in (INDUCTION, COPIES):
        what = LOSS_OF_REPEATS
    like = _as_many_as_left(chosen, holders, sizes)
    sets = [chosen, *(random_draws(like, sizes, draws, seed, never=holders) if like else ())]
    found = []
    for heads in each(sets, f"removing heads: {result.role}"):
        with ablate(model.network, heads):
            found.append(measure())
    names = [str(head) for head in chosen]
    return Confirmation(result.role, names, what, before, found[0], found[1:], len(like))


def _as_many_as_left(chosen: Sequence[Head], holders: Sequence[Head], sizes: Sequence[int]) -> list[Head]:
    """Of the chosen heads, in each layer as many as it has heads that do not hold the role."""
    left = Counter(dict(enumerate(sizes)))
    left.subtract(int(head.layer) for head in holders)
    found = []
    for head in chosen:
        if left[int(head.layer)] > 0:
            left[int(head.layer)] -= 1
            found.append(head)
    return found


def _rows_of(role: str, probe: Probe, predicts: bool) -> list[_Asked]:
    """The second half of the texts with rows of the role; without last rows if the next token is measured."""
    asked = []
    for text in probe.texts:
        for question in probe.questions:
            items = question.find(text).get(role)
            if items is not None and len(items.rows):
                units = text.words if question.unit is WORDS else torch.arange(len(text))
                asked.append(_Asked(text, torch.isin(units, items.rows)))
    second = ~first_half([one.text.notes.document for one in asked])
    chosen = [one for one, kept in zip(asked, second, strict=True) if kept]
    for one in chosen if predicts else ():
        one.rows[-1] = False
    return [one for one in chosen if bool(one.rows.any())][:MOST_TEXTS]


def _run(model: TextModel, text: Labelled, **options: object) -> Any:  # noqa: ANN401 - as the model gives it
    return model.network(input_ids=text.ids[None], **options)


def _loss(model: TextModel, asked: Sequence[_Asked]) -> float:
    """The mean of ``- log p(next token)`` over all rows asked."""
    total, count = 0.0, 0
    for one in asked:
        rows = one.rows.nonzero()[:, 0]
        logits = _run(model, one.text, use_cache=False).logits[0, rows].float()
        total += float(nn.functional.cross_entropy(logits, one.text.ids[rows + 1], reduction="sum"))
        count += len(rows)
    return total / count


def _losses(model: TextModel, asked: Sequence[_Asked]) -> _Measure:
    return LOSS, _loss(model, asked), lambda: _loss(model, asked)


def _changes(model: TextModel, asked: Sequence[_Asked]) -> _Measure:
    now = [_output(model, one.text) for one in asked]
    rows = torch.cat([one.rows for one in asked])
    others = torch.cat([one.others for one in asked])
    alone = int(others.sum()) < _FEWEST_OTHERS * int(rows.sum())

    def change() -> float:
        by_text = [_change(_output(model, one.text), old) for one, old in zip(asked, now, strict=True)]
        changes = torch.cat(by_text)
        at_rows = float(changes[rows].mean())
        return at_rows if alone else at_rows / float(changes[others].mean())

    return (CHANGE_ALONE, 0.0, change) if alone else (CHANGE, 1.0, change)


def _output(model: TextModel, text: Labelled) -> Float[Tensor, "token model_dim"]:
    return first_tensor(_run(model, text), model.name)[0].double()


def _change(new: Float[Tensor, "token model_dim"], old: Float[Tensor, "token model_dim"]) -> Tensor:
    change: Tensor = (new - old).norm(dim=-1) / old.norm(dim=-1)
    return change
