"""How a comparison in a trained model looks in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headwise.experiments.view import table, verdict

if TYPE_CHECKING:
    from headwise.experiments.model_comparison import ModelComparison

_STATES_SHOWN = 7
_HEADS_SHOWN = 6
_WORDS_SHOWN = 12


def view(result: ModelComparison) -> Group:
    """Distances, words, heads, and the same without positions."""
    parts: list[Text | Table] = [
        Text(
            f"2  In a trained model: {result.model}, {result.layers} layers of {result.heads} heads",
            style="bold",
        ),
        Text("How far each sentence's vector is from A's (cosine distance, 0 to 2):"),
        _distances(result),
        verdict(_nearness(result)),
        Text(),
        Text("How far each word's own vector moved between A and B, relative to its size, after each layer:"),
        _words(result),
        Text("The heads whose attention changed most (share of it that moved to other words):"),
        _heads(result),
    ]
    if result.positions_off is None:
        parts.append(
            verdict("Positions could not be switched off: headwise found no table or rotation of them.")
        )
    else:
        parts.append(verdict(_blindness(result)))
    return Group(*parts)


def _distances(result: ModelComparison) -> Table:
    numbers = table("", "text", "distance")
    numbers.columns[1].justify = "left"
    numbers.columns[1].no_wrap = False
    numbers.add_row("B, reordered", Text(result.sentence_b), f"{result.with_positions.reordered:.4f}")
    numbers.add_row("a harmless edit", Text(result.harmless.text), f"{result.harmless.distance:.4f}")
    numbers.add_row("unrelated", Text(result.unrelated.text), f"{result.unrelated.distance:.4f}")
    if result.positions_off is not None:
        numbers.add_row("B, positions off", Text(result.sentence_b), f"{result.positions_off.reordered:.1e}")
    return numbers


def _nearness(result: ModelComparison) -> str:
    reordered, harmless = result.with_positions.reordered, result.harmless.distance
    less = reordered < harmless
    ratio = harmless / reordered if less else reordered / harmless
    return (
        f"The other order moved the sentence {ratio:.1f} times {'less' if less else 'more'} than a full stop "
        f"{'does' if less else 'does, a harmless edit'}."
    )


def _words(result: ModelComparison) -> Table:
    states = len(result.with_positions.words[0].by_state)
    shown = _spread(states, _STATES_SHOWN)
    numbers = table("word", *("input" if state == 0 else f"layer {state - 1}" for state in shown))
    words = result.with_positions.words
    for word in words[:_WORDS_SHOWN]:
        numbers.add_row(Text(word.word), *(f"{word.by_state[state]:.3f}" for state in shown))
    if len(words) > _WORDS_SHOWN:
        numbers.add_row(Text(f"and {len(words) - _WORDS_SHOWN} more", style="dim"))
    return numbers


def _heads(result: ModelComparison) -> Table:
    shown = result.with_positions.heads[:_HEADS_SHOWN]
    numbers = table("layer.head", *(f"{head.layer}.{head.head}" for head in shown))
    numbers.add_row("share moved", *(f"{head.change:.3f}" for head in shown))
    return numbers


def _blindness(result: ModelComparison) -> str:
    off = result.positions_off
    assert off is not None
    start = f"With its positions switched off ({', '.join(result.switched_off)}), "
    residual = (
        f"no word moved by more than {off.largest_movement():.1e} and no head by {off.heads[0].change:.1e}"
    )
    if not result.same_words:
        return start + "A and B still differ, as they do not hold the same words: " + residual + "."
    if off.is_rounding():
        return start + "the model is order-blind: " + residual + ", which is rounding."
    if result.causal:
        return start + "the causal mask alone still carries the order: " + residual + "."
    return start + "the model still knows the order by other means: " + residual + "."


def _spread(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})
