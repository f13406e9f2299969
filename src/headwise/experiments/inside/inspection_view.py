"""How an inspection looks in a terminal: an atlas of the heads, those that stand out, sinks, and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, nan
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwise.experiments.inside.atlas import Atlas
from headwise.experiments.inside.heat import SHADES, number
from headwise.experiments.inside.inspection import UNITS, HeadRow, Inspection
from headwise.experiments.inside.pieces import quoted
from headwise.experiments.text import new_table, page, paragraph

_HIGHEST = 3
_WITH_UNITS = ("entropy", "distance", "spread")
_ROOM = 12  # columns for a head and its mean, if there are to be three


def view(result: Inspection) -> Group:
    """The whole page."""
    most, fewest = (pick(layer.heads for layer in result.layers) for pick in (max, min))
    heads = str(most) if most == fewest else f"{fewest} to {most}"
    blocks: list[RenderableType] = [
        paragraph(*_about(result)),
        paragraph(_atlas_title(result)),
        Atlas(result),
        paragraph(_legend(result)),
        paragraph("The heads that stand out, highest mean first:"),
        _standing_out(result),
        paragraph(*_about_heads(result)),
        *_sinks(result),
        paragraph(_first_token(result)),
        Text(str(result.coverage)),
    ]
    if result.saved is not None:
        blocks.append(
            Text(
                f"Saved. Open any window of it exactly, for example:\n"
                f"headwise zoom {result.saved} --head 0.0 --queries 0:{min(result.tokens, 48)}"
            )
        )
    layers = f"{len(result.layers)} layer{'s' if len(result.layers) != 1 else ''}"
    title = f"{result.model}: {result.tokens:,} tokens, {layers} of {heads} heads"
    return page(title, *blocks)


def _about(result: Inspection) -> list[str]:
    parts = [f"Statistics over {result.rows}, exact in each row."]
    if result.sampled:
        parts.append("For all of them: --rows all.")
    if result.trained_length is not None and result.tokens > result.trained_length:
        parts.append(
            f"The text is longer than the {result.trained_length:,} tokens the model was made for: beyond "
            "those it may do anything."
        )
    return parts


def _atlas_title(result: Inspection) -> str:
    kv = ", and the key/value head that each reads" if result.grouped else ""
    return f"Mean {result.statistic} ({UNITS[result.statistic]}); layers down, heads across{kv}:"


def _legend(result: Inspection) -> str:
    means = [mean for row in result.table(result.statistic) for mean in row if mean is not None]
    if not means:
        return f"No query row of this text has {result.statistic}."
    low, high = (number(value).strip() for value in (min(means), max(means)))
    unit = UNITS[result.statistic].partition(" ")[0] if result.statistic in _WITH_UNITS else "of 1"
    return f"Shades {SHADES!r}, or colours from dark to light, from {low} to {high} {unit}."


def _standing_out(result: Inspection) -> Table:
    width = max((len(_head(result, head, "distance")) for head in result.heads), default=0)
    count = _HIGHEST if width <= _ROOM else _HIGHEST - 1
    places = ("1st", "2nd", "3rd")[:count]
    columns = ["statistic", "median", *places, "lowest", *(["error"] if result.sampled else [])]
    table = new_table(*columns, left=[0, *range(2, 3 + count)])
    table.padding = (0, 1, 0, 0)
    for statistic in UNITS:
        highest, lowest = result.highest(statistic, count), result.lowest(statistic, 1)
        if not highest or not highest[0].mean(statistic):  # no head of a causal model looks at the next token
            continue
        means = [mean for head in result.heads if (mean := head.mean(statistic)) is not None]
        cells = [_head(result, head, statistic) for head in highest] + [""] * (count - len(highest))
        cells.append(_head(result, lowest[0], statistic))
        if result.sampled:
            cells.append(_error([*highest, *lowest], statistic))
        table.add_row(statistic, number(median(means)), *cells)
    return table


def _head(result: Inspection, head: HeadRow, statistic: str) -> str:
    kv = f"/{head.kv_head}" if result.grouped else ""
    return f"{head.layer}.{head.head}{kv} {number(head.mean(statistic)).strip()}"


def _error(heads: Sequence[HeadRow], statistic: str) -> str:
    errors = [value.standard_error for head in heads if (value := head.statistics[statistic]) is not None]
    largest = max(errors, default=nan)
    return f"{largest:.0f}" if largest >= 99.5 else f"{largest:.2g}"


def _about_heads(result: Inspection) -> list[str]:
    parts = []
    if result.grouped:
        parts.append("18.6/2 is layer 18, query head 6, which reads key/value head 2.")
    if result.sampled:
        parts.append("error: the largest standard error of the means beside it, from sampling rows.")
    most = f"log {result.tokens:,} = {log(result.tokens):.2f}"
    parts.append(f"Entropy is at most {most} nats here; distances are in tokens.")
    return parts


def _sinks(result: Inspection) -> list[RenderableType]:
    if not result.sinks:
        return []
    table = new_table("place", "token", "leads in", "gets there", "in all heads", left=[1])
    for sink in result.sinks:
        table.add_row(
            f"{sink.place:,}",
            Text(quoted(sink.token, 24)),
            f"{sink.leads} of {len(result.heads)} heads",
            f"{sink.where_it_leads:.3f}",
            f"{sink.everywhere:.3f}",
        )
    return [
        paragraph(
            "Sinks: the places that get most from the average row that sees them (of those that at least",
            "half of the rows see):",
        ),
        table,
    ]


def _first_token(result: Inspection) -> str:
    count = result.first_token_heads
    give = "gives" if count == 1 else "give"
    return (
        f"{count} of {len(result.heads)} heads {give} more than half of their attention to the first token."
    )
