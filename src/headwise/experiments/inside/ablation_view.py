"""How an ablation looks in a terminal: one table, and what it says in a sentence."""

from __future__ import annotations

from math import exp
from statistics import fmean

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwise.experiments.inside.ablation import Ablation, Effect
from headwise.experiments.text import new_table, page, paragraph

_SHOWN = 20
_NAMED = 5
_REPLACED = {
    "zero": "zero",
    "mean": "its own mean over the text",
    "uniform": "even attention to all it sees",
}


def view(result: Ablation) -> Group:
    """The whole page."""
    count = len(result.together.heads)
    heads = f"{count} head{'s' if count > 1 else ''}"
    blocks: list[RenderableType] = [
        paragraph(
            f"The output of each removed head is replaced by {_REPLACED[result.to]}.", _measures(result)
        ),
        _table(result),
        paragraph(_sentence(result)),
        Text(str(result.coverage)),
    ]
    return page(f"{result.model} without {heads}: {result.tokens:,} tokens", *blocks)


def _measures(result: Ablation) -> str:
    if result.loss is not None:
        return f"Loss in nats per token, over the {result.tokens - 1:,} tokens that have one before them:"
    return "Change of the output relative to its size, and of the text's vector in cosine distance:"


def _table(result: Ablation) -> Table:
    second = ("loss", "change") if result.loss is not None else ("output", "text vector")
    table = new_table("removed", *second, left=[0])
    if result.loss is not None:
        table.add_row("nothing", f"{result.loss:.4f}", "")
    together = result.together
    table.add_row(
        f"{_named(together.heads)}{' together' if len(together.heads) > 1 else ''}", *_cells(together)
    )
    if len(result.alone) > 1:
        ordered = sorted(result.alone, key=lambda effect: -effect.size)
        for effect in ordered[:_SHOWN]:
            table.add_row(f"  {effect.heads[0]} alone", *_cells(effect))
        if len(ordered) > _SHOWN:
            table.add_row(f"  and {len(ordered) - _SHOWN} more with less", "", "")
    for number, effect in enumerate(result.random, start=1):
        table.add_row(f"random {number}: {_named(effect.heads)}", *_cells(effect))
    return table


def _named(heads: list[str]) -> str:
    more = f" and {len(heads) - _NAMED} more" if len(heads) > _NAMED else ""
    return ", ".join(heads[:_NAMED]) + more


def _cells(effect: Effect) -> tuple[str, str]:
    if effect.loss is not None and effect.loss_change is not None:
        return f"{effect.loss:.4f}", f"{effect.loss_change:+.4f}"
    vector = "-" if effect.vector_change is None else f"{effect.vector_change:.4f}"
    return f"{effect.output_change or 0.0:.4f}", vector


def _sentence(result: Ablation) -> str:
    together = result.together
    if together.loss is not None and result.loss is not None:
        start = (
            f"The loss goes from {result.loss:.3f} to {together.loss:.3f} nats per token, perplexity from "
            f"{exp(min(result.loss, 700)):,.1f} to {exp(min(together.loss, 700)):,.1f}."
        )
    else:
        start = f"The output changes by {100 * together.size:.1f} % of its size."
    if not result.random:
        return f"{start} There is no baseline: the layers have too few other heads to draw as many from."
    sizes = [effect.size for effect in result.random]
    low, middle, high = (f"{value:+.4f}" for value in (min(sizes), fmean(sizes), max(sizes)))
    if result.loss is None:
        low, middle, high = (text.removeprefix("+") for text in (low, middle, high))
    what = "the loss by" if result.loss is not None else "the output by"
    return (
        f"{start} As many random heads of the same layers change {what} {middle} on average, {low} to {high} "
        f"({len(sizes)} draw{'s' if len(sizes) > 1 else ''}, seed {result.seed})."
    )
