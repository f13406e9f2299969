"""The picture of a battery: every head's role on a grid, and the best head of each role beside its rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.core.figures import GREY, new_figure
from headwise.experiments.roles.battery import NO_ROLE, RoleBattery, RoleResult
from headwise.experiments.roles.role_names import DARK, FAMILIES, codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CODE = 5  # letters in a place of the grid
_PLACE = (0.52, 0.27)  # inches of a place
_LINE = 0.24  # inches of a role in the second panel
_STACKED = 14  # layers up to which the panels stand above each other
_EDGE = "#D9D9D9"


def figure_of(result: RoleBattery) -> Figure:
    """Both panels: above each other, or side by side for a model of many layers."""
    held = [role for role in result.roles if role.heads]
    held.sort(key=lambda role: (_place_of(role.family), -role.heads[0].score))
    named = codes([role.role for role in result.roles if role.heads], _CODE)
    layers, heads = len(result.of_heads), max(map(len, result.of_heads), default=1)
    wide = 1.0 + heads * _PLACE[0]
    tall, lines = 1.6 + layers * _PLACE[1], 1.5 + max(3, len(held)) * _LINE
    stacked = layers <= _STACKED
    size = (max(7.5, wide), tall + lines) if stacked else (wide + 6.5, max(tall, lines))
    with new_figure(*size, who="roles") as figure:
        figure.suptitle(_title(result), ha="left", x=0.01, fontsize=10)
        if stacked:
            grid, dots = figure.subplots(2, 1, height_ratios=[tall, lines])
        else:
            grid, dots = figure.subplots(1, 2, width_ratios=[wide, 6.5])
        _draw_grid(grid, result, named)
        _draw_dots(dots, held, named, at_least=3 if stacked else layers)
        return figure


def _title(result: RoleBattery) -> str:
    seed = result.untrained_seed
    untrained = f" with random weights (seed {seed})" if seed is not None else ""
    return f"{result.model}{untrained}: {result.share_with_role:.0%} of heads hold a role; {'; '.join(result.data)}"


def _place_of(family: str) -> int:
    families = list(FAMILIES)
    return families.index(family) if family in families else len(families)


def _draw_grid(axes: Axes, result: RoleBattery, named: dict[str, str]) -> None:
    from matplotlib.patches import Patch, Rectangle

    family = {role.role: role.family for role in result.roles}
    for layer, row in enumerate(result.of_heads):
        for head, role in enumerate(row):
            colour = FAMILIES.get(family.get(role, ""), "white")
            place = Rectangle((head - 0.5, layer - 0.5), 1, 1, facecolor=colour, edgecolor=_EDGE, linewidth=0.8)
            axes.add_patch(place)
            if role != NO_ROLE:
                ink = "white" if family.get(role) in DARK else "black"
                axes.text(head, layer, named.get(role, "?"), ha="center", va="center", color=ink, fontsize=8)
    heads = max(map(len, result.of_heads), default=1)
    axes.set(xlim=(-0.5, heads - 0.5), ylim=(len(result.of_heads) - 0.5, -0.5), xlabel="head", ylabel="layer")
    axes.set_xticks(range(heads))
    axes.set_yticks(range(len(result.of_heads)))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Each head's best-supported role")
    there = {family[role] for row in result.of_heads for role in row if role in family}
    patches = [Patch(facecolor=FAMILIES.get(name, "white"), label=name) for name in sorted(there, key=_place_of)]
    patches.append(Patch(facecolor="white", edgecolor=_EDGE, label="no role"))
    columns = min(len(patches), max(3, heads // 2))
    axes.legend(
        handles=patches, loc="upper left", bbox_to_anchor=(0, -0.9 / (1 + len(result.of_heads) * _PLACE[1])),
        ncols=columns, borderaxespad=0, columnspacing=1.2, handlelength=1.2,
    )


def _draw_dots(axes: Axes, held: list[RoleResult], named: dict[str, str], at_least: int) -> None:
    axes.set_title("The best head of each role that is held, with its 95 % interval")
    axes.set(xlim=(-0.02, 1.02), xlabel="score, of 1")
    rows = max(len(held), at_least)
    axes.set_ylim(rows - 0.5, -0.5)
    if not held:
        axes.text(0.5, (rows - 1) / 2, "No head holds a role.", ha="center", va="center")
        axes.set_yticks([])
        return
    for line, role in enumerate(held):
        head = role.heads[0]
        colour = FAMILIES.get(role.family, GREY)
        axes.plot([0, 1], [line, line], color=_EDGE, linewidth=0.6, zorder=0)
        axes.plot([head.low, head.high], [line, line], color="black", linewidth=1.2, zorder=2)
        axes.plot(head.score, line, "o", color=colour, markeredgecolor="black", markersize=7, zorder=3)
        axes.plot(head.baseline, line, "|", color="black", markersize=10, markeredgewidth=2, zorder=2)
        axes.plot(head.control, line, "x", color=GREY, markersize=5, markeredgewidth=1.5, zorder=2)
    axes.set_yticks(range(len(held)), [f"{role.role} [{named[role.role]}]  {role.heads[0].head}" for role in held])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _explain(axes)


def _explain(axes: Axes) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", color="black", markerfacecolor="white", label="head"),
        Line2D([], [], marker="|", color="black", linestyle="", markersize=10, markeredgewidth=2,
               label="best without content"),
        Line2D([], [], marker="x", color=GREY, linestyle="", markeredgewidth=1.5, label="chance or control text"),
    ]  # fmt: skip
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(0, 1), ncols=3)
