"""What a trained model makes of two sentences: distances, words, heads, with and without its positions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.experiments.positions_off import positions_off
from headwise.experiments.result import Result
from headwise.experiments.words import check_comparable, split_words
from headwise.models import Reading, TextModel

if TYPE_CHECKING:
    from rich.console import RenderableType

ROUNDING = 1e-4  # relative: 2^-24 of each of a few hundred sums in a row
UNRELATED = "A child is feeding ducks by the pond."


@dataclass(frozen=True)
class Distance(Result):
    """Cosine distance of a text's vector from the first sentence's: 0 the same, 1 unrelated, at most 2."""

    text: str
    distance: float


@dataclass(frozen=True)
class WordMovement(Result):
    """How far a word's vector moved between the sentences, relative to its size, at each hidden state.

    State 0 is the input of the first layer, state n the output of layer n - 1.
    """

    word: str
    by_state: list[float]


@dataclass(frozen=True)
class HeadChange(Result):
    """How much of its attention a head moved to other words: 0 none, 1 all of it.

    The total variation between the two sentences, by word identity, averaged over the attending words.
    """

    layer: int
    head: int
    change: float


@dataclass(frozen=True)
class Differences(Result):
    """Between the two sentences in one run of the model."""

    reordered: float
    words: list[WordMovement]
    heads: list[HeadChange]

    def largest_movement(self) -> float:
        """Of any word at any state."""
        return max(max(word.by_state) for word in self.words)

    def is_rounding(self) -> bool:
        """Whether nothing moved by more than float32 can lose on its way through the layers."""
        return max(self.largest_movement(), self.heads[0].change) < ROUNDING


@dataclass(frozen=True)
class ModelComparison(Result):
    """Two sentences in a trained model.

    ``with_positions`` is the model as it is; ``positions_off`` the same with what ``switched_off`` names
    giving nothing, or None where there is nothing to switch off. Heads come sorted, most changed first.
    """

    sentence_a: str
    sentence_b: str
    model: str
    layers: int
    heads: int
    causal: bool
    same_words: bool
    harmless: Distance
    unrelated: Distance
    with_positions: Differences
    switched_off: list[str]
    positions_off: Differences | None

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        from headwise.experiments.model_comparison_view import view
        from headwise.experiments.word_attention_view import sentences

        return Group(sentences(self.sentence_a, self.sentence_b), "", view(self))


def compare_in_model(
    model: TextModel, sentence_a: str, sentence_b: str, *, unrelated: str = UNRELATED
) -> ModelComparison:
    """Read two sentences with a trained model, with its positions and without, and say what differs.

    The harmless edit is a full stop at the end, added or taken away. A word that occurs twice is the mean of
    its places. Raises HeadwiseError if a sentence is empty, too long, or they share no word.
    """
    check_comparable(sentence_a, sentence_b)
    harmless = sentence_a.rstrip(".") if sentence_a.endswith(".") else sentence_a + "."
    a, b = model.read(sentence_a), model.read(sentence_b)
    with positions_off(model.network) as names:
        off = (
            _differences(sentence_a, sentence_b, model.read(sentence_a), model.read(sentence_b))
            if names
            else None
        )
    layers, heads = a.weights.shape[:2]
    return ModelComparison(
        sentence_a=sentence_a,
        sentence_b=sentence_b,
        model=model.name,
        layers=layers,
        heads=heads,
        causal=bool((a.weights.triu(1) == 0).all()),
        same_words=sorted(_identities(sentence_a, a)) == sorted(_identities(sentence_b, b)),
        harmless=Distance(harmless, _distance(a, model.read(harmless))),
        unrelated=Distance(unrelated, _distance(a, model.read(unrelated))),
        with_positions=_differences(sentence_a, sentence_b, a, b),
        switched_off=names,
        positions_off=off,
    )


def _distance(a: Reading, b: Reading) -> float:
    return float((a.vector() - b.vector()).square().sum() / 2)  # = 1 - cosine, without its cancellation


def _differences(sentence_a: str, sentence_b: str, a: Reading, b: Reading) -> Differences:
    places_a, places_b = _places(_identities(sentence_a, a)), _places(_identities(sentence_b, b))
    words_a = {word.identity for word in split_words(sentence_a)}
    shared = [word for word in places_a if word in places_b and word in words_a]
    words = []
    for word in shared:
        before, after = a.hidden[:, places_a[word]].mean(1), b.hidden[:, places_b[word]].mean(1)
        size = (before.norm(dim=-1) + after.norm(dim=-1)) / 2
        words.append(WordMovement(word, ((before - after).norm(dim=-1) / size).tolist()))
    changes = _head_changes(shared, a.weights, places_a, b.weights, places_b)
    heads = [
        HeadChange(layer, head, change)
        for layer, row in enumerate(changes.tolist())
        for head, change in enumerate(row)
    ]
    heads.sort(key=lambda head: -head.change)
    return Differences(reordered=_distance(a, b), words=words, heads=heads)


def _head_changes(
    words: list[str], a: Tensor, places_a: dict[str, list[int]], b: Tensor, places_b: dict[str, list[int]]
) -> Tensor:
    everything = list(dict.fromkeys([*places_a, *places_b]))
    moved = torch.zeros(a.shape[:2])
    for word in words:
        from_a, from_b = a[:, :, places_a[word]].mean(2), b[:, :, places_b[word]].mean(2)
        for other in everything:
            to_a, to_b = (
                from_a[..., places_a.get(other, [])].sum(-1),
                from_b[..., places_b.get(other, [])].sum(-1),
            )
            moved += (to_a - to_b).abs() / 2
    return moved / len(words)


def _identities(sentence: str, reading: Reading) -> list[str]:
    """Each token's word, or the token itself where it belongs to none."""
    words = split_words(sentence)
    names = []
    for token, (start, stop) in zip(reading.tokens, reading.spans, strict=True):
        inside = [word.identity for word in words if start < stop and word.start < stop and start < word.stop]
        names.append(inside[0] if inside else token)
    return names


def _places(names: list[str]) -> dict[str, list[int]]:
    places = defaultdict(list)
    for place, name in enumerate(names):
        places[name].append(place)
    return dict(places)
