"""A text as a model takes it, with everything that roles ask about its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.annotations.annotated_text import AnnotatedText


@dataclass(frozen=True, eq=False)
class Labelled:
    """One text's tokens: their numbers, which are special, and the number of each one's word (-1 for none).

    ``causal`` says that the model's tokens see none that come later; ``counts`` how often each of the tokens
    occurs in all texts.

    >>> from headwise.annotations.annotated_text import AnnotatedText, Word
    >>> cat = AnnotatedText("cats", (Word("cats", 0, 4),), "here", "one")
    >>> text = Labelled(torch.tensor([1, 7, 8, 2]), torch.tensor([True, False, False, True]),
    ...                 torch.tensor([-1, 0, 0, -1]), cat)
    >>> text.pieces
    tensor([[0., 1., 1., 0.]])
    """

    ids: Int[Tensor, " token"]
    special: Bool[Tensor, " token"]
    words: Int[Tensor, " token"]
    notes: AnnotatedText
    causal: bool = False
    counts: Int[Tensor, " token"] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def pieces(self) -> Float[Tensor, "word token"]:
        """1 where a token is a piece of a word."""
        numbers = torch.arange(len(self.notes.words))
        return (self.words == numbers[:, None]).float()

    @cached_property
    def sinks(self) -> Bool[Tensor, " token"]:
        """The tokens on which models leave weight that they have no use for: special ones and the first."""
        first = torch.arange(len(self.ids)) == 0
        return self.special | first

    def visible(self, places: int) -> Bool[Tensor, "place place"]:
        """Which of so many places, tokens or words, sees which, itself included."""
        seen = torch.ones(places, places, dtype=torch.bool)
        return seen.tril() if self.causal else seen
