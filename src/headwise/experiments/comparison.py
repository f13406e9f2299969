"""What does attention make of two sentences with the same words in another order?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.experiments.model_comparison import UNRELATED, ModelComparison, compare_in_model
from headwise.experiments.result import Result
from headwise.experiments.word_attention import WordAttention, attention_by_word
from headwise.models import TextModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True)
class Comparison(Result):
    """The answer without a model, and in a trained one if there was one."""

    without_model: WordAttention
    in_model: ModelComparison | None

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from headwise.experiments.model_comparison_view import view as view_model
        from headwise.experiments.word_attention_view import sentences
        from headwise.experiments.word_attention_view import view as view_words

        words = self.without_model
        parts: list[RenderableType] = [
            sentences(words.sentence_a, words.sentence_b),
            Text(),
            view_words(words),
        ]
        if self.in_model is not None:
            parts += [Text(), view_model(self.in_model)]
        return Group(*parts)

    def figure(self) -> Figure:
        from headwise.experiments.compare_figure import draw

        return draw(self)


def compare(
    sentence_a: str,
    sentence_b: str,
    *,
    model: TextModel | None = None,
    position: str = "sinusoidal",
    unrelated: str = UNRELATED,
) -> Comparison:
    """Attention between the words of two sentences, without a model and, if one is given, in that model.

    Raises HeadwiseError if a sentence is empty, if they are the same, or if they share no word.

    >>> result = compare("cat bites dog", "dog bites cat")
    >>> result.without_model.largest_change(with_positions=False) < 1e-6
    True
    """
    words = attention_by_word(sentence_a, sentence_b, position=position)
    read = None if model is None else compare_in_model(model, sentence_a, sentence_b, unrelated=unrelated)
    return Comparison(words, read)
