"""The picture of a battery: every head's role on a grid, and the best head of each role beside its rivals."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from headwise.core.figures import GREY, new_figure
from headwise.experiments.roles.battery import NO_ROLE, RoleBattery, RoleResult
from headwise.experiments.roles.battery_tables import without_counts
from headwise.experiments.roles.role_names import DARK, DIRECTIONS, FAMILIES, codes

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_CODE = 5  # letters in a place of the grid
_PLACE = (0.58, 0.27)  # inches of a place
_LINE = 0.24  # inches of a role in the second panel
_DOTS_WIDE = 7.5  # inches of the second panel
_STACKED = 14  # layers up to which the panels stand above each other
_LETTERS = 12  # of the title to an inch
_EDGE = "#D9D9D9"


def figure_of(result: RoleBattery) -> Figure:
    """Both panels: above each other, or side by side for a model of many layers."""
    held = [role for role in result.roles if role.heads]
    held.sort(key=lambda role: (_place_of(role.family), -role.heads[0].score))
    named = codes([role.role for role in held], _CODE)
    layers, heads = len(result.of_heads), max(map(len, result.of_heads), default=1)
    wide, tall = 1.0 + heads * _PLACE[0], 1.4 + layers * _PLACE[1]
    lines = 1.4 + max(3, len(held)) * _LINE
    stacked = layers <= _STACKED
    size = (max(_DOTS_WIDE, wide), tall + lines) if stacked else (wide + _DOTS_WIDE, max(tall, lines))
    with new_figure(size[0], 0.4 + size[1], who="roles") as figure:
        figure.suptitle(fill(_title(result), round(size[0] * _LETTERS)), ha="left", x=0.01, fontsize=10)
        if stacked:
            panels = figure.subfigures(2, 1, squeeze=False, height_ratios=[tall, lines])
        else:
            panels = figure.subfigures(1, 2, squeeze=False, width_ratios=[wide, _DOTS_WIDE])
        first, second = panels.flatten()
        _draw_grid(first, result, named)
        _draw_dots(second, held, named, lines=max(3, len(held)) if stacked else max(layers, len(held)))
        return figure


def _title(result: RoleBattery) -> str:
    share = f"{100 * result.share_with_role:.0f} % of heads hold a role"
    data = dict.fromkeys(without_counts(name) for name in result.data)
    return f"{result.full_name}: {share}; {'; '.join(data)}"


def _place_of(family: str) -> int:
    families = list(FAMILIES)
    return families.index(family) if family in families else len(families)


def _draw_grid(panel: SubFigure, result: RoleBattery, named: dict[str, str]) -> None:
    from matplotlib.patches import Patch, Rectangle

    axes = panel.subplots()
    family = {role.role: role.family for role in result.roles}
    for layer, row in enumerate(result.of_heads):
        for head, role in enumerate(row):
            colour = FAMILIES.get(family.get(role, ""), "white")
            corner = (head - 0.5, layer - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor=_EDGE, linewidth=0.8))
            if role != NO_ROLE:
                ink = "white" if family.get(role) in DARK else "black"
                axes.text(head, layer, named.get(role, "?"), ha="center", va="center", color=ink, fontsize=8)
    layers, heads = len(result.of_heads), max(map(len, result.of_heads), default=1)
    axes.set(xlim=(-0.5, heads - 0.5), ylim=(layers - 0.5, -0.5), xlabel="head", ylabel="layer")
    axes.set_xticks(range(heads))
    axes.set_yticks(range(layers))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Each head's best-supported role" + _arrows(named))
    there = {family[role] for row in result.of_heads for role in row if role in family}
    patches = [
        Patch(facecolor=FAMILIES.get(name, "white"), edgecolor=_EDGE, label=name)
        for name in sorted(there, key=_place_of)
    ]
    patches.append(Patch(facecolor="white", edgecolor=_EDGE, label="no role"))
    columns = min(len(patches), 2 + heads // 2)
    panel.legend(
        handles=patches, loc="outside lower center", ncols=columns, columnspacing=1.2, handlelength=1.2
    )


def _arrows(named: dict[str, str]) -> str:
    return f"\n{DIRECTIONS}" if any(code[-1] in "<>" for code in named.values()) else ""


def _draw_dots(panel: SubFigure, held: list[RoleResult], named: dict[str, str], lines: int) -> None:
    axes = panel.subplots()
    axes.set_title("The head chosen first for each role held, 95 % interval")
    axes.set(xlim=(-0.02, 1.02), ylim=(lines - 0.5, -0.5), xlabel="score, of 1")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for line, role in enumerate(held):
        head = role.heads[0]
        colour = FAMILIES.get(role.family, GREY)
        axes.plot([0, 1], [line, line], color=_EDGE, linewidth=0.6, zorder=0)
        axes.plot([head.low, head.high], [line, line], color="black", linewidth=1.2, zorder=2)
        axes.plot(head.score, line, "o", color=colour, markeredgecolor="black", markersize=7, zorder=3)
        axes.plot(head.baseline, line, "|", color="black", markersize=10, markeredgewidth=2, zorder=2)
        axes.plot(head.control, line, "x", color=GREY, markersize=5, markeredgewidth=1.5, zorder=2)
    axes.set_yticks(
        range(len(held)), [f"{role.role} [{named[role.role]}]  {role.heads[0].head}" for role in held]
    )
    if held:
        _explain(panel)
    else:
        axes.set_axis_off()
        axes.text(0, 0, "No head holds a role.")


def _explain(panel: SubFigure) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", color="black", markerfacecolor="white", label="head"),
        Line2D([], [], marker="|", color="black", linestyle="", markersize=10, markeredgewidth=2),
        Line2D([], [], marker="x", color=GREY, linestyle="", markeredgewidth=1.5),
    ]
    labels = ["head", "best that knows only distance, or nothing", "chance or control text"]
    panel.legend(marks, labels, loc="outside lower center", ncols=3, columnspacing=1.2)
