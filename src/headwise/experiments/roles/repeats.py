"""Random tokens, repeated once: what induction shows on; and the same rows without a repeat, its control."""

from __future__ import annotations

import torch

from headwise.annotations import AnnotatedText, Link, Word
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.links import COPIES, INDUCTION
from headwise.models import TextModel

SEQUENCES, PERIOD = 24, 50


def repeats(model: TextModel, *, causal: bool, seed: int = 0) -> tuple[list[Labelled], list[Labelled]]:
    """Sequences of 50 ordinary tokens drawn at random and repeated once, and as many that are not repeated.

    Olsson et al. 2022, arXiv 2209.11895. Nothing stands before them: a start token would take weight.

    >>> from headwise.models import open_model
    >>> again, fresh = repeats(open_model(), causal=False)
    >>> bool((again[0].ids[:50] == again[0].ids[50:]).all())
    True
    >>> bool((fresh[0].ids[:50] == again[0].ids[:50]).all())
    True
    """
    special = set(model.tokenizer.all_special_ids)
    ordinary = torch.tensor([number for number in range(len(model.tokenizer)) if number not in special])
    random = torch.Generator().manual_seed(seed)
    again, fresh = [], []
    for number in range(SEQUENCES):
        first, second = (
            ordinary[torch.randint(0, len(ordinary), (PERIOD,), generator=random)] for _ in range(2)
        )
        again.append(_labelled(torch.cat([first, first]), number, causal))
        fresh.append(_labelled(torch.cat([first, second]), number, causal))
    return again, fresh


def _labelled(ids: torch.Tensor, number: int, causal: bool) -> Labelled:
    """Every token is its own word, so that links speak of tokens."""
    count = len(ids)
    words = tuple(Word("?", place, place + 1) for place in range(count))
    links = [
        link
        for row in range(PERIOD, count)
        for link in (Link(INDUCTION, row, (row - PERIOD + 1,)), Link(COPIES, row, (row - PERIOD,)))
    ]
    name = f"random tokens {number}"
    notes = AnnotatedText("?" * count, words, name, name, links=tuple(links))
    return Labelled(ids, torch.zeros(count, dtype=torch.bool), torch.arange(count), notes, causal)
