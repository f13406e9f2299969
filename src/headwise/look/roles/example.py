"""A text to try roles on: its words are its tokens."""

from __future__ import annotations

import torch

from headwise.annotations.annotated_text import AnnotatedText, Word
from headwise.look.roles.labelled import Labelled


def example(sentence: str, *, causal: bool = False, **notes: object) -> Labelled:
    """Words between spaces, a token each, the same number for the same word; ``notes`` are its labels.

    >>> example("b a b").ids
    tensor([1, 0, 1])
    """
    names = sentence.split()
    starts = [sum(len(name) + 1 for name in names[:place]) for place in range(len(names))]
    words = tuple(Word(name, start, start + len(name)) for name, start in zip(names, starts, strict=True))
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return Labelled(
        torch.tensor([numbers[name] for name in names]),
        torch.zeros(len(names), dtype=torch.bool),
        torch.arange(len(names)),
        AnnotatedText(sentence, words, "example", "example", **notes),  # type: ignore[arg-type]
        causal,
    )
