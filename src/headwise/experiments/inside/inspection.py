"""What an inspection of a model holds: every head's statistics, the sinks, and what was seen how exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.experiments.result import Result
from headwise.look.calls.coverage import Coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

UNITS = {
    "entropy": "nats",
    "confidence": "largest weight of a row",
    "distance": "tokens",
    "spread": "tokens",
    "self": "share on the own token",
    "previous": "share on the token before",
    "next": "share on the token after",
    "first": "share on the first token",
    "special": "share on special tokens",
}


@dataclass(frozen=True)
class Value:
    """The mean of a statistic over all query rows, and its standard error, which is 0 if all were read."""

    mean: float
    standard_error: float


@dataclass(frozen=True)
class HeadRow:
    """One query head and the key/value head it reads; ``None`` is a statistic that no row of it has."""

    layer: int
    head: int
    kv_head: int
    largest_score: float | None
    statistics: dict[str, Value | None]

    def mean(self, statistic: str) -> float | None:
        """The mean of a statistic, if there is one."""
        value = self.statistics[statistic]
        return None if value is None else value.mean


@dataclass(frozen=True)
class LayerRow:
    """One attention of the model, by its module's path."""

    number: int
    name: str
    heads: int
    kv_heads: int
    kind: str


@dataclass(frozen=True)
class Sink:
    """A place that heads give much attention to.

    It ``leads`` in that many heads: there it gets more than any other place, of those that at least half of
    the rows see, from the average row that sees it: ``where_it_leads`` in those heads, ``everywhere`` in
    all.
    """

    place: int
    token: str
    leads: int
    where_it_leads: float
    everywhere: float


@dataclass(frozen=True)
class Inspection(Result):
    """What every attention head of a model does with one text.

    ``statistic`` is the one that the atlas shows. ``rows`` says in words how many query rows the statistics
    rest on, ``sampled`` whether those are a sample. ``first_token_heads`` counts the heads that give the
    first token more than half of their attention. ``saved`` is the folder of the recording, if any.
    """

    model: str
    text: str
    tokens: int
    trained_length: int | None
    statistic: str
    rows: str
    sampled: bool
    layers: list[LayerRow]
    heads: list[HeadRow]
    sinks: list[Sink]
    first_token_heads: int
    coverage: Coverage
    saved: str | None

    @property
    def grouped(self) -> bool:
        """Whether some query heads share a key/value head."""
        return any(layer.kv_heads < layer.heads for layer in self.layers)

    def table(self, statistic: str) -> list[list[float | None]]:
        """The means of a statistic, a row for each layer; shorter where a layer has fewer heads."""
        means: list[list[float | None]] = [[] for _ in self.layers]
        for head in self.heads:
            means[head.layer].append(head.mean(statistic))
        return means

    def highest(self, statistic: str, count: int) -> list[HeadRow]:
        """The heads with the highest mean of a statistic, the highest first."""
        return sorted(self._having(statistic), key=lambda head: -(head.mean(statistic) or 0.0))[:count]

    def lowest(self, statistic: str, count: int) -> list[HeadRow]:
        """The heads with the lowest mean of a statistic, the lowest first."""
        return sorted(self._having(statistic), key=lambda head: head.mean(statistic) or 0.0)[:count]

    def _having(self, statistic: str) -> list[HeadRow]:
        return [head for head in self.heads if head.statistics[statistic] is not None]

    def __rich__(self) -> RenderableType:
        from headwise.experiments.inside.inspection_view import view

        return view(self)

    def figure(self) -> Figure:
        from headwise.experiments.inside.inspection_figure import draw

        return draw(self)
