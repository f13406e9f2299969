"""Attention between words without any model: random word vectors, with and without positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.core import attention_weights
from headwise.experiments.named import named_position
from headwise.experiments.result import Result
from headwise.experiments.words import Word, check_comparable, repeated, split_words, vocabulary
from headwise.layers import NoPosition, PositionalEncoding

if TYPE_CHECKING:
    from rich.console import RenderableType

Matrix = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Drowning(Result):
    """Raw position numbers against words at one sentence length, and where the middle word looks.

    ``position_over_word`` is the ratio of their sizes (root mean square).
    """

    length: int
    position_over_word: float
    weight_on_last_word: float


@dataclass(frozen=True)
class WordAttention(Result):
    """What each word attends to, by identity: ``without_a["exceeded"]["charge"]`` is a weight.

    ``_a`` and ``_b`` are the two sentences, ``without`` and ``with`` say whether positions were encoded.
    A word that occurs twice is summed as a key and averaged as a query, so each row adds up to 1.
    """

    sentence_a: str
    sentence_b: str
    position: str
    model_dim: int
    seed: int
    focus: str
    repeated: list[str]
    without_a: Matrix
    without_b: Matrix
    with_a: Matrix
    with_b: Matrix
    drowning: list[Drowning]

    def largest_change(self, *, with_positions: bool) -> float:
        """The largest difference between the sentences, over the words that both have."""
        a, b = (self.with_a, self.with_b) if with_positions else (self.without_a, self.without_b)
        return max(abs(a[u][v] - b[u][v]) for u in a if u in b for v in a[u] if v in b[u])

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        from headwise.experiments.word_attention_view import sentences, view

        return Group(sentences(self.sentence_a, self.sentence_b), "", view(self))


def attention_by_word(
    sentence_a: str, sentence_b: str, *, position: str = "sinusoidal", model_dim: int = 8, seed: int = 0
) -> WordAttention:
    """Attention of each word to each word in two sentences, without and with a positional encoding.

    Word vectors are drawn from a normal distribution by ``torch.Generator().manual_seed(seed)``, one word
    after another in order of first appearance. Weights are ``softmax(x x^T / sqrt(model_dim))``: no learned
    projections. Raises HeadwiseError if a sentence is empty or they share no word.

    >>> result = attention_by_word("charge exceeded refund", "refund exceeded charge")
    >>> round(result.with_a["exceeded"]["charge"], 3), round(result.with_b["exceeded"]["charge"], 3)
    (0.147, 0.136)
    """
    check_comparable(sentence_a, sentence_b)
    a, b = split_words(sentence_a), split_words(sentence_b)
    names = vocabulary(a, b)
    vectors = dict(zip(names, _random_vectors(len(names), model_dim, seed), strict=True))
    encoding = named_position(position, model_dim=model_dim, heads=1, max_length=max(len(a), len(b)))
    blind = NoPosition()
    without_a, without_b, with_a, with_b = (
        _by_identity(words, _weights(torch.stack([vectors[word.identity] for word in words]), how))
        for how in (blind, encoding)
        for words in (a, b)
    )
    drowning = [_drowning(n, model_dim, seed) for n in (3, 10, 100, 1000)] if position == "integers" else []
    return WordAttention(
        sentence_a=sentence_a,
        sentence_b=sentence_b,
        position=position,
        model_dim=model_dim,
        seed=seed,
        focus=_focus(a, b, with_a, with_b),
        repeated=repeated(a, b),
        without_a=without_a,
        without_b=without_b,
        with_a=with_a,
        with_b=with_b,
        drowning=drowning,
    )


def _random_vectors(count: int, model_dim: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(model_dim, generator=generator) for _ in range(count)]


@torch.no_grad()
def _weights(x: Tensor, encoding: PositionalEncoding) -> Tensor:
    positions = torch.arange(len(x))
    x = encoding.embed(x[None], positions)[:, None]
    q, k = encoding.rotate(x, x, positions, positions)
    bias = encoding.bias(q, k, positions, positions, None) if "scores" in encoding.acts_on else None
    return attention_weights(q, k, bias=bias)[0, 0]


def _by_identity(words: list[Word], weights: Tensor) -> Matrix:
    names = [word.identity for word in words]
    matrix: Matrix = {u: dict.fromkeys(names, 0.0) for u in names}
    for u, row in zip(names, weights.tolist(), strict=True):
        for v, weight in zip(names, row, strict=True):
            matrix[u][v] += weight / names.count(u)
    return matrix


def _focus(a: list[Word], b: list[Word], with_a: Matrix, with_b: Matrix) -> str:
    """The word to show: one whose own place is the same in both, or else the one that changes most."""
    shared = [u for u in with_a if u in with_b]
    unmoved = [x.identity for x, y in zip(a, b, strict=False) if x.identity == y.identity]
    again = repeated(a, b)
    for word in unmoved:
        if word not in again:
            return word
    return max(shared, key=lambda u: sum(abs(with_a[u][v] - with_b[u].get(v, 0.0)) for v in with_a[u]))


@torch.no_grad()
def _drowning(length: int, model_dim: int, seed: int) -> Drowning:
    words = torch.stack(_random_vectors(length, model_dim, seed))
    encoding = named_position("integers", model_dim=model_dim, heads=1, max_length=length)
    positions = encoding.embed(torch.zeros_like(words)[None], torch.arange(length))[0]
    ratio = (positions.square().mean() / words.square().mean()).sqrt()
    weights = _weights(words, encoding)
    return Drowning(length, float(ratio), float(weights[length // 2, -1]))
