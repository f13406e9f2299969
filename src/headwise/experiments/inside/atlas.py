"""All heads of a model at once: a heat table in the terminal."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from headwise.experiments.inside.heat import NONE, colour, has_colours, levels, shade, short_number
from headwise.experiments.inside.inspection import Inspection

_WITH_NUMBERS = 12  # heads for which there is room to print every mean
_IN_A_BLOCK = 64


class Atlas:
    """Layers down, heads across: each mean as a number and a shade, on colour where there is colour."""

    def __init__(self, result: Inspection) -> None:
        self.result = result
        self.means = result.table(result.statistic)
        flat = iter(levels([mean for row in self.means for mean in row]))
        self.levels = [[next(flat) for _ in row] for row in self.means]
        self.widest = max(map(len, self.means), default=0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        coloured = has_colours(console)
        for first in range(0, self.widest, _IN_A_BLOCK):
            heads = range(first, min(first + _IN_A_BLOCK, self.widest))
            yield from self._headings(heads)
            for layer, row in enumerate(self.means):
                line = Text(f"{layer:>5}  ", no_wrap=True, overflow="ignore")
                for head in heads[: max(0, len(row) - first)]:
                    line.append_text(self._cell(row[head], self.levels[layer][head], coloured))
                yield line

    def _headings(self, heads: range) -> RenderResult:
        if self._with_numbers():
            yield Text("layer  " + "".join(f"{head:^6}" for head in heads).rstrip(), style="dim")
            kv_heads = {head.head: head.kv_head for head in self.result.heads}
            if self.result.grouped:
                yield Text(
                    "   kv  " + "".join(f"{kv_heads[head]:^6}" for head in heads).rstrip(), style="dim"
                )
        else:
            tens = "".join(str(head // 10 % 10) if head % 10 == 0 else " " for head in heads)
            yield Text(f"layer  {tens}".rstrip(), style="dim")
            yield Text("       " + "".join(str(head % 10) for head in heads), style="dim")

    def _cell(self, mean: float | None, level: float, coloured: bool) -> Text:
        style = colour(level) if coloured and mean is not None else ""
        letter = shade(level) if mean is not None else NONE
        if self._with_numbers():
            mark = " " if mean is None else letter
            shown = f" {short_number(mean)} " if coloured else f"{short_number(mean)} {mark}"
            return Text.assemble((shown, style), " ")
        return Text(letter, style=style)

    def _with_numbers(self) -> bool:
        return self.widest <= _WITH_NUMBERS
