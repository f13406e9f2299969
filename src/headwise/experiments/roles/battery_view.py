"""How a battery of roles looks in a terminal: the tutorials' sentences, roles, heads and caveats."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from headwise.experiments.roles.battery import Confirmation, RoleBattery
from headwise.experiments.roles.battery_tables import held_table, not_held
from headwise.experiments.roles.copied import LEAST
from headwise.experiments.roles.head_grid import HeadGrid
from headwise.experiments.text import page, paragraph

_NAMED = 5
CAVEAT = (
    "A role says where a head looks, not why the model answered; heads were chosen on one half of the texts "
    "and are reported on the other."
)
COPIES = (
    "copies: how far the head's own output raises the logit of the token that it looks at, in deviations "
    f"above the mean of all logits. yes: at least {LEAST}, and more than of another token of the text."
)


def view(result: RoleBattery) -> Group:
    """The whole page."""
    blocks: list[RenderableType] = [paragraph(_data(result)), _sentences(result)]
    held = [role for role in result.roles if role.verdict == "held"]
    if held:
        blocks += [
            Text("Roles that heads hold, in the order in which they were chosen:"),
            held_table(held),
            paragraph(_columns()),
        ]
    if any(role.copies for role in held):
        blocks.append(paragraph(COPIES))
    blocks += _section(
        "Position only: a fixed distance is right in half of the rows or more, about as often as the "
        "best head:",
        result,
        "position",
    )
    blocks += _section(
        "Roles that no head holds, with the head that came first (and the bar, if it is below):",
        result,
        "none",
    )
    if held:
        blocks += [paragraph(_share(result), "Each head's best-supported role:"), HeadGrid(result)]
    else:
        blocks.append(paragraph(_share(result)))
    blocks += [*_confirmed(result.confirmed), *_left_out(result)]
    return page(_title(result), *blocks, paragraph(CAVEAT), Text(result.coverage))


def _title(result: RoleBattery) -> str:
    layers = len(result.of_heads)
    most, fewest = (pick(map(len, result.of_heads), default=0) for pick in (max, min))
    heads = str(most) if most == fewest else f"{fewest} to {most}"
    return f"{result.full_name}: roles of {layers} layer{'s' if layers != 1 else ''} of {heads} heads"


def _data(result: RoleBattery) -> str:
    asked = len(result.roles)
    return f"{asked} role{'s' if asked != 1 else ''} asked of {'; '.join(result.data)}."


def _sentences(result: RoleBattery) -> Group:
    lines: list[RenderableType] = [Text("What tutorials say, and what this model does:")]
    for sentence, verdict in result.sentences.items():
        lines += [Text(f"{sentence}?", style="bold"), _indented(Text(f"{verdict[:1].upper()}{verdict[1:]}."))]
    return Group(*lines)


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _columns() -> str:
    return (
        "95 %: the interval. baseline: the best of a head that knows only distance (at -1: it always looks "
        "one place back; near, 1st: at the nearest or first that it may) or nothing (even), or its own score "
        "on control texts (ctrl). p: against the best of all heads by chance, times the roles asked. values: "
        "the score if each weight counts by the length of the value it carries. no sinks: without the weight "
        "on special tokens and the first."
    )


def _section(title: str, result: RoleBattery, verdict: str) -> list[RenderableType]:
    lines = not_held(result.roles, verdict)
    return [Group(Text(title), *(_indented(line) for line in lines))] if lines else []


def _share(result: RoleBattery) -> str:
    count = sum(map(len, result.of_heads))
    holding = round(result.share_with_role * count)
    if not holding:
        return f"None of the {count} heads holds any of these roles."
    verb = "holds" if holding == 1 else "hold"
    share = f"{100 * result.share_with_role:.0f} %"
    sinks = {role.role for role in result.roles if role.family == "sinks"}
    idle = sum(role in sinks for row in result.of_heads for role in row)
    only = f", {idle} of them only a sink" if idle else ""
    return f"{holding} of {count} heads ({share}) {verb} at least one of these roles{only}."


def _confirmed(found: Sequence[Confirmation]) -> list[RenderableType]:
    if not found:
        return []
    lines: list[RenderableType] = [Text("Without the heads of a role:")]
    for one in found:
        more = f" and {len(one.heads) - _NAMED} more" if len(one.heads) > _NAMED else ""
        lines += [
            Text.assemble((one.role, "bold"), f" without {', '.join(one.heads[:_NAMED])}{more}"),
            _indented(Text(f"{one.what}: {_effect(one)}")),
        ]
    return [Group(*lines)]


def _effect(one: Confirmation) -> str:
    start = f"{one.before:.3f} before, {one.without:.3f} without them"
    if not one.random:
        return f"{start}; no other heads of these layers are left to compare with."
    draws = f"{len(one.random)} draw{'s' if len(one.random) != 1 else ''}"
    few = one.random_heads < len(one.heads)
    are = "is" if one.random_heads == 1 else "are"
    heads = f"only {one.random_heads}, as there {are} no more," if few else "as many"
    return (
        f"{start}, {fmean(one.random):.3f} without {heads} random heads of the same layers that do not hold "
        f"the role ({min(one.random):.3f} to {max(one.random):.3f}, {draws})."
    )


def _left_out(result: RoleBattery) -> list[RenderableType]:
    if not result.left_out:
        return []
    lines = [_indented(Text.assemble((name, "bold"), f": {why}")) for name, why in result.left_out.items()]
    return [Group(Text("Not asked:"), *lines)]
