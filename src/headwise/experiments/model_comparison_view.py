"""How a comparison in a trained model looks in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headwise.experiments.text import evenly, new_table, page, paragraph
from headwise.experiments.word_attention_view import short

if TYPE_CHECKING:
    from headwise.experiments.model_comparison import ModelComparison

_STATES_SHOWN = 7
_HEADS_SHOWN = 6
_WORDS_SHOWN = 12
_TEXT_WIDTH = 44


def view(result: ModelComparison) -> Group:
    """Distances, words, heads, and the same without positions."""
    return page(
        f"2  In a trained model: {result.model}, {result.layers} layers of {result.heads} heads",
        paragraph("How far each sentence's vector is from A's (cosine distance, 0 to 2):"),
        _distances(result),
        paragraph(_nearness(result)),
        paragraph(
            "How far each word's vector moved between A and B, relative to its size, after each layer:"
        ),
        _words(result),
        paragraph("The heads whose attention changed most (share of it that moved to other words):"),
        _heads(result),
        paragraph(_blindness(result)),
    )


def _distances(result: ModelComparison) -> Table:
    numbers = new_table("", "sentence", "distance", left=[0, 1])
    numbers.columns[1].no_wrap, numbers.columns[1].max_width = False, _TEXT_WIDTH
    numbers.add_row("B, reordered", Text(result.sentence_b), f"{result.with_positions.reordered:.4f}")
    numbers.add_row("a harmless edit", Text(result.harmless.text), f"{result.harmless.distance:.4f}")
    numbers.add_row("unrelated", Text(result.unrelated.text), f"{result.unrelated.distance:.4f}")
    if result.positions_off is not None:
        numbers.add_row("B, positions off", Text(result.sentence_b), f"{result.positions_off.reordered:.1e}")
    return numbers


def _nearness(result: ModelComparison) -> str:
    reordered, harmless = result.with_positions.reordered, result.harmless.distance
    if reordered == 0.0:
        return "To this model A and B are the same text: their vectors do not differ at all."
    if reordered < harmless:
        return (
            f"A full stop moved the sentence {harmless / reordered:.1f} times as far as the other order did."
        )
    return f"The other order moved the sentence {reordered / harmless:.1f} times as far as a full stop did."


def _words(result: ModelComparison) -> Table:
    words = result.with_positions.words
    shown = evenly(len(words[0].by_state), _STATES_SHOWN)
    headings = ("input" if state == 0 else f"layer {state - 1}" for state in shown)
    numbers = new_table("word", *headings, left=[0])
    for word in words[:_WORDS_SHOWN]:
        numbers.add_row(short(word.word, 14), *(f"{word.by_state[state]:.3f}" for state in shown))
    if len(words) > _WORDS_SHOWN:
        numbers.add_row(f"and {len(words) - _WORDS_SHOWN} more")
    return numbers


def _heads(result: ModelComparison) -> Table:
    shown = result.with_positions.heads[:_HEADS_SHOWN]
    numbers = new_table("layer.head", *(f"{head.layer}.{head.head}" for head in shown), left=[0])
    numbers.add_row("share moved", *(f"{head.change:.3f}" for head in shown))
    return numbers


def _blindness(result: ModelComparison) -> str:
    off = result.positions_off
    if off is None:
        return "Positions could not be switched off: headwise found no table or rotation of them."
    start = f"With its positions switched off ({', '.join(result.switched_off)}), "
    word, head = off.largest_movement(), off.heads[0].change
    if off.is_rounding() and result.same_words:
        return (
            f"{start}the model is order-blind: no word moved by more than {word:.1e} and no head by "
            f"{head:.1e}, which is rounding."
        )
    still = f"a word moves by up to {word:.2f} and a head by up to {head:.2f}."
    if not result.same_words:
        return f"{start}A and B still differ, as they do not hold the same words: {still}"
    if result.causal:
        return f"{start}the causal mask alone still carries the order: {still}"
    return f"{start}the model still knows the order by other means: {still}"
