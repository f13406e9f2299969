"""Roles of distance: one fixed offset, or nearby."""

from __future__ import annotations

from collections.abc import Callable

import torch

from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import Items, Question, items_from

NEAR = 5
_NAMES = {-1: "previous token", 0: "the token itself", 1: "next token"}


def offset_question(offset: int) -> Question:
    """The token at a fixed distance: -1 is the one before. Clark et al. 2019, arXiv 1906.04341, section 3.1.

    >>> offset_question(-2).asks
    'How much weight goes to the token 2 before?'
    """
    name = _NAMES.get(offset, f"token at {offset:+d}")
    far = (
        f"the token {abs(offset)} {'before' if offset < 0 else 'after'}" if abs(offset) > 1 else f"the {name}"
    )
    asks = f"How much weight goes to {far.replace('the the', 'the')}?"
    return Question("position", asks, _at(name, offset), offsets=False)


def _at(name: str, offset: int) -> Callable[[Labelled], dict[str, Items]]:
    def find(text: Labelled) -> dict[str, Items]:
        place = torch.arange(len(text))
        seen = text.visible(len(text))
        return {name: items_from((place == place[:, None] + offset) & seen, seen)}

    return find


def nearby(text: Labelled) -> dict[str, Items]:
    """The tokens up to five away, of rows that see others too.

    >>> from headwise.look.roles.example import example
    >>> nearby(example("a b c d e f g h"))["nearby"].targets[0].long()
    tensor([1, 1, 1, 1, 1, 1, 0, 0])
    """
    place = torch.arange(len(text))
    seen = text.visible(len(text))
    return {"nearby": items_from(((place - place[:, None]).abs() <= NEAR) & seen, seen)}


POSITIONS = (
    *(offset_question(offset) for offset in (-3, -2, -1, 0, 1, 2, 3)),
    Question(
        "position",
        f"How much weight stays within {NEAR} tokens?",
        nearby,
        least=0.9,
        margin=0.2,
        offsets=False,
    ),
)
