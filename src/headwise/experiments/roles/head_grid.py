"""Every head's best-supported role at once, in the terminal: layers down, heads across, codes."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text

from headwise.experiments.inside.heat import has_colours
from headwise.experiments.result import WIDTH
from headwise.experiments.roles.battery import NO_ROLE, RoleBattery
from headwise.experiments.roles.role_names import DARK, DIRECTIONS, FAMILIES, codes

_LEFT = 7  # columns of the layer's number
_WIDEST = 5
_NARROWEST = 3  # letters by which a role can be guessed; with less room, one
_IN_A_BLOCK = 64


class HeadGrid:
    """A code for each head that holds a role, a point for the others, with what the codes mean below."""

    def __init__(self, result: RoleBattery) -> None:
        self.rows = result.of_heads
        self.heads = max(map(len, self.rows), default=0)
        room = (WIDTH - _LEFT) // max(1, self.heads) - 1
        self.width = min(_WIDEST, room) if room >= _NARROWEST else 1
        there = {role for row in self.rows for role in row}
        self.roles = [one.role for one in result.roles if one.role in there]
        self.codes = codes(self.roles, self.width)
        self.family = {one.role: one.family for one in result.roles}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        coloured = has_colours(console)
        for first in range(0, self.heads, _IN_A_BLOCK):
            heads = range(first, min(first + _IN_A_BLOCK, self.heads))
            yield from self._headings(heads)
            for layer, row in enumerate(self.rows):
                line = Text(f"{layer:>5}  ", no_wrap=True, overflow="ignore")
                for role in row[first : heads.stop]:
                    line.append_text(self._cell(role, coloured))
                yield line
        yield Text("")
        yield Text(self._legend())

    def _headings(self, heads: range) -> RenderResult:
        if self.width > 1:
            yield Text(
                "layer  " + "".join(f"{head:<{self.width + 1}}" for head in heads).rstrip(), style="dim"
            )
            return
        tens = "".join(str(head // 10 % 10) if head % 10 == 0 else " " for head in heads)
        yield Text(f"layer  {tens}".rstrip(), style="dim")
        yield Text(" " * _LEFT + "".join(str(head % 10) for head in heads), style="dim")

    def _cell(self, role: str, coloured: bool) -> Text:
        code = "." if role == NO_ROLE else self.codes.get(role, "?")
        family = self.family.get(role)
        style = Style()
        if coloured and family in FAMILIES:
            style = Style(color="#FFFFFF" if family in DARK else "#000000", bgcolor=FAMILIES[family])
        return Text.assemble((f"{code:<{self.width}}", style), " " if self.width > 1 else "")

    def _legend(self) -> str:
        arrows = any(code[-1] in "<>" for code in self.codes.values())
        named = [f"{self.codes[role]} = {role}" for role in self.roles if self.codes[role][-1] not in "<>"]
        return "; ".join([*([DIRECTIONS] if arrows else []), *named, ". = no role"])
