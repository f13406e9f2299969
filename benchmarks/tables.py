"""The benchmark's tables, within 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table


def show(timings, memory, length: int, goals, notes: list[str]) -> None:
    """Speed by size, then memory, then the goals and what they rest on."""
    console = Console(width=80)
    console.print("Time over the bare module's in the same round: median (quartiles)\n")
    for batch, tokens in dict.fromkeys((size.batch, size.length) for size in timings):
        of_size = {
            size.causal: timings[size] for size in timings if (size.batch, size.length) == (batch, tokens)
        }
        console.print(_speed(f"batch {batch}, length {tokens:,}", of_size))
    console.print(_memory(memory, length))
    console.print(_goals(goals))
    for note in notes:
        console.print(note, style="dim")


def show_ratios(title: str, by_column) -> None:
    """Ratios to the first of several contenders, a column for each thing that was timed."""
    table = _table(title, "", *by_column)
    first, *names = next(iter(by_column.values()))
    table.add_row(
        f"[bold]{first}", *(f"{times[first].seconds.median * 1e3:,.2f} ms" for times in by_column.values())
    )
    for name in names:
        table.add_row(f"  {name}", *(_ratio(times[name].ratio) for times in by_column.values()))
    Console(width=80).print(table)


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _speed(title: str, of_size) -> Table:
    table = _table(title, "", "forward", "forward and backward")
    for causal in (False, True):
        forward, training = of_size[causal]["forward"], of_size[causal]["training"]
        bare, *names = forward
        times = (f"{timing[bare].seconds.median * 1e3:,.1f} ms" for timing in (forward, training))
        table.add_row(f"[bold]{bare}, {'causal' if causal else 'full'}", *times)
        for name in names:
            table.add_row(f"  {name}", _ratio(forward[name].ratio), _ratio(training[name].ratio))
        table.add_section()
    return table


def _ratio(ratio) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f} {ratio.high:.2f})"


def _memory(memory, length: int) -> Table:
    title = "Peak memory, causal, batch 1, in MiB: total (above the input)"
    table = _table(title, "", f"forward, {length:,} tokens", f"with backward, {length // 4:,} tokens")
    for position, of_position in memory.items():
        cells = (of_position[what] for what in ("forward", "training"))
        table.add_row(position, *(f"{cell['total']:,.0f} ({cell['above']:,.0f})" for cell in cells))
    return table


def _goals(goals) -> Table:
    table = _table("Goals", "", "limit", "measured", "held")
    for goal in goals:
        table.add_row(
            f"{goal.what}\n[dim]{goal.where}[/]", f"{goal.limit:,g}", f"{goal.measured:,.2f}", _held(goal)
        )
    return table


def _held(goal) -> str:
    if goal.measured != goal.measured:
        return "not measured"
    return "[green]yes[/]" if goal.held else "[red]no[/]"
