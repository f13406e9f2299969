"""How attention between words looks in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headwise.experiments.view import table, verdict

if TYPE_CHECKING:
    from headwise.experiments.word_attention import WordAttention

_WORDS_SHOWN = 12
_ROUNDING = 1e-6  # of float32 weights, which are at most 1


def view(result: WordAttention) -> Group:
    """The weights of one word in both sentences, without and with positions, and what that shows."""
    parts: list[Text | Table] = [
        Text("1  Without a model", style="bold"),
        Text(
            f"Random word vectors of {result.model_dim} dimensions (seed {result.seed}), no learned weights. "
            f'What "{result.focus}" attends to:',
        ),
        _weights(result),
        verdict(_sentence(result)),
    ]
    if result.repeated:
        names = ", ".join(f'"{word}"' for word in result.repeated)
        parts.append(Text(f"{names}: more than once in a sentence, so summed over its places.", style="dim"))
    if result.drowning:
        parts += [Text(), _drowning(result), verdict(_drowned(result))]
    return Group(*parts)


def _weights(result: WordAttention) -> Table:
    numbers = table("to", ("no positions", "A"), ("", "B"), (result.position, "A"), ("", "B"), ("A - B", ""))
    rows = [
        row.get(result.focus, {})
        for row in (result.without_a, result.without_b, result.with_a, result.with_b)
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names[:_WORDS_SHOWN]:
        cells = [f"{row[name]:.3f}" if name in row else "-" for row in rows]
        both = name in rows[2] and name in rows[3]
        numbers.add_row(Text(name), *cells, f"{rows[2][name] - rows[3][name]:+.3f}" if both else "-")
    if len(names) > _WORDS_SHOWN:
        numbers.add_row(Text(f"and {len(names) - _WORDS_SHOWN} more", style="dim"))
    return numbers


def _sentence(result: WordAttention) -> str:
    blind = result.largest_change(with_positions=False)
    seeing = result.largest_change(with_positions=True)
    if result.position == "none":
        return f"Largest change of any weight between A and B: {blind:.1g}. Attention is order-blind."
    changes = (
        f"Largest change of any weight between A and B: {blind:.1g} without positions, "
        f"{seeing:.3f} with them ({result.position})."
    )
    if seeing < _ROUNDING:
        changes += " It knows how far a word is but not on which side, and A reads as B backwards."
    return changes


def _drowning(result: WordAttention) -> Table:
    numbers = table(
        "words in the sentence",
        ("size of positions", "over words"),
        ("middle word's weight", "on the last word"),
    )
    for row in result.drowning:
        numbers.add_row(f"{row.length:,}", f"{row.position_over_word:.1f}", f"{row.weight_on_last_word:.3f}")
    return numbers


def _drowned(result: WordAttention) -> str:
    last = result.drowning[-1]
    return (
        f"At {last.length:,} words the numbers are {last.position_over_word:.0f} times the size of the "
        "words: they drown them, and every word looks at the end of the sentence."
    )
