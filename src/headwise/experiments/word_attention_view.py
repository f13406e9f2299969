"""How attention between words looks in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwise.experiments.text import new_table, page, paragraph

if TYPE_CHECKING:
    from headwise.experiments.word_attention import WordAttention

_WORDS_SHOWN = 12
_ROUNDING = 1e-6  # of float32 weights, which are at most 1


def sentences(a: str, b: str) -> Text:
    """Two sentences under the letters the tables call them by.

    >>> print(sentences("cat bites dog", "dog bites cat"))
    A  cat bites dog
    B  dog bites cat
    """
    return Text("\n").join((Text.assemble(("A  ", "bold"), a), Text.assemble(("B  ", "bold"), b)))


def view(result: WordAttention) -> Group:
    """The weights of one word in both sentences, without and with positions, and what that shows."""
    blocks: list[RenderableType] = [
        paragraph(
            f"Random word vectors of {result.model_dim} dimensions (seed {result.seed}), no learned weights.",
            f'What "{result.focus}" attends to:',
        ),
        _weights(result),
        paragraph(_change(result)),
    ]
    if result.repeated:
        names = ", ".join(f'"{word}"' for word in result.repeated)
        blocks.append(paragraph(f"{names}: more than once in a sentence, so summed over its places."))
    if result.drowning:
        blocks += [_drowning(result), paragraph(_drowned(result))]
    return page("1  Without a model", *blocks)


def _weights(result: WordAttention) -> Table:
    numbers = new_table("\nto", "no positions\nA", "\nB", f"{result.position}\nA", "\nB", "\nA - B", left=[0])
    rows = [
        row.get(result.focus, {})
        for row in (result.without_a, result.without_b, result.with_a, result.with_b)
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names[:_WORDS_SHOWN]:
        cells = [f"{row[name]:.3f}" if name in row else "-" for row in rows]
        both = name in rows[2] and name in rows[3]
        numbers.add_row(short(name), *cells, f"{rows[2][name] - rows[3][name]:+.3f}" if both else "-")
    if len(names) > _WORDS_SHOWN:
        numbers.add_row(f"and {len(names) - _WORDS_SHOWN} more")
    return numbers


def short(word: str, most: int = 20) -> Text:
    """A word as it is, never read as markup, cut where it would burst a table.

    >>> print(short("[bold]"), short("incomprehensibilities"))
    [bold] incomprehensibiliti~
    """
    return Text(word if len(word) <= most else word[: most - 1] + "~")


def _change(result: WordAttention) -> str:
    blind = result.largest_change(with_positions=False)
    seeing = result.largest_change(with_positions=True)
    if result.position == "none":
        return f"Over all words, the largest change of a weight: {blind:.1g}. Attention is order-blind."
    changes = (
        f"Over all words, the largest change of a weight from A to B: {blind:.1g} without positions, "
        f"{seeing:.3f} with them ({result.position})."
    )
    if seeing < _ROUNDING:
        changes += " It knows how far a word is but not on which side, and A reads as B backwards."
    return changes


def _drowning(result: WordAttention) -> Table:
    numbers = new_table(
        "words in\nthe sentence", "size of positions\nover words", "middle word's weight\non the last word"
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
