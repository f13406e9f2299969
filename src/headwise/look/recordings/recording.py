"""What a recording holds: sums for each layer, an account of what was seen, and maps that can be opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import nan

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core import AttentionMap, HeadwiseError
from headwise.look.calls.coverage import Coverage
from headwise.look.recordings.kept import Kept
from headwise.look.recordings.sums import STATISTICS, Sums


@dataclass
class Layer:
    """One attention of a model: where it is, its heads, and the sums over all rows that were read.

    ``kv_heads`` is how many key/value heads it has: query head h reads ``h // (heads / kv_heads)``. ``calls``
    counts the calls, ``documents`` the sequences, each of which may take many calls where a cache grows; a
    picture that is cut into windows is many.
    """

    name: str
    heads: int
    kv_heads: int
    kind: str
    calls: int
    documents: int
    sums: Sums

    def __add__(self, other: Layer) -> Layer:
        if (self.heads, self.kv_heads) != (other.heads, other.kv_heads):
            raise HeadwiseError(
                who="Recording",
                what=f"the heads of {self.name or 'the model'}",
                expected=f"{self.heads} on {self.kv_heads} as in the other recording",
                got=f"{other.heads} on {other.kv_heads}",
                why="Only recordings of the same model add",
                do="Record both with one model",
            )
        return replace(
            self,
            calls=self.calls + other.calls,
            documents=self.documents + other.documents,
            sums=self.sums + other.sums,
        )


@dataclass
class Recording:
    """Statistics of every attention head of a model over the texts it read, as sums that add.

    ``layers`` are in the order in which the model first calls them, by name. ``asked_rows`` is how many query
    rows were read of each text, None for all. ``kept`` are queries and keys that were kept, ``tokens`` the
    tokens of each text where somebody has filled them in.

    >>> from headwise.look import record
    >>> layer = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = torch.randn(1, 5, 8)
    >>> with record(layer) as recording:
    ...     output, _ = layer(x, x, x)
    >>> recording.mean("entropy").shape, recording.layers[""].heads
    (torch.Size([1, 2]), 2)
    >>> (recording + recording).documents
    2
    """

    coverage: Coverage
    layers: dict[str, Layer] = field(default_factory=dict)
    asked_rows: int | None = None
    kept: list[Kept] = field(default_factory=list)
    tokens: list[list[str]] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """How many texts were read."""
        return max((layer.documents for layer in self.layers.values()), default=0)

    @property
    def names(self) -> list[str]:
        """The layers' names: number 3 is ``names[3]``."""
        return list(self.layers)

    def mean(self, statistic: str) -> Float[Tensor, "layers heads"]:
        """The mean of a statistic over all rows, for each layer and head; NaN where there is none."""
        return self._table(statistic, Sums.mean)

    def standard_error(self, statistic: str) -> Float[Tensor, "layers heads"]:
        """How far each mean may be from that over all rows, as one standard error: 0 if all were read."""
        return self._table(statistic, Sums.standard_error)

    def map(self, layer: int | str, *, head: int | None = None, document: int = 0) -> AttentionMap:
        """A map that was kept, exactly: ``recording.map(3, head=5).tile(slice(0, 60), slice(0, 60))``.

        Raises HeadwiseError if there is no such layer or head, or if nothing was kept.
        """
        found = self.layer(layer)
        if head is not None and not 0 <= head < found.heads:
            raise HeadwiseError(
                who="Recording",
                what="the head",
                expected=f"0 to {found.heads - 1}",
                got=str(head),
                why=f"{found.name or 'The layer'} has {found.heads} heads",
                do="Choose one of them",
            )
        for kept in self.kept:
            if kept.layer == found.name and kept.document == document:
                return kept.map(head)
        raise HeadwiseError(
            who="Recording",
            what=f"queries and keys of text {document}",
            expected="kept",
            got=f"{len({kept.document for kept in self.kept})} texts that are",
            why="Without them no map can be opened",
            do="Record with keep=InMemory() or keep=OnDisk(folder)",
        )

    def layer(self, layer: int | str) -> Layer:
        """A layer by number or name. Raises HeadwiseError if there is none such."""
        names = self.names
        if isinstance(layer, int) and 0 <= layer < len(names):
            return self.layers[names[layer]]
        if layer in self.layers:
            return self.layers[str(layer)]
        raise HeadwiseError(
            who="Recording",
            what="the layer",
            expected=f"0 to {len(names) - 1}, or one of their names",
            got=repr(layer),
            why=f"{self.coverage.model} called {len(names)} attention layers",
            do="Choose one of them; Recording.names lists them",
        )

    def __add__(self, other: Recording) -> Recording:
        layers = {name: replace(layer) for name, layer in self.layers.items()}
        for name, layer in other.layers.items():
            layers[name] = layers[name] + layer if name in layers else replace(layer)
        kept = [replace(one, document=one.document + self.documents) for one in other.kept]
        known = len(self.tokens) == self.documents and len(other.tokens) == other.documents
        return Recording(
            self.coverage + other.coverage,
            layers,
            _fewest(self.asked_rows, other.asked_rows),
            self.kept + kept,
            self.tokens + other.tokens if known else [],
        )

    def rows_line(self) -> str:
        """How many query rows the statistics rest on, in words."""
        read, rows = (
            sum(float(getattr(layer.sums, name)[0].mean()) for layer in self.layers.values())
            / max(1, len(self.layers))
            for name in ("read", "rows")
        )
        texts = f"{self.documents} text{'s' if self.documents != 1 else ''}"
        if round(read) == round(rows):
            return f"all {rows:,.0f} query rows of {texts}"
        return f"{read:,.0f} sampled of {rows:,.0f} query rows of {texts}"

    def __str__(self) -> str:
        heads = sum(layer.heads for layer in self.layers.values())
        lines = [f"{len(self.layers)} attention layers, {heads} heads; {self.rows_line()}"]
        for statistic in STATISTICS:
            mean = self.mean(statistic)
            if not bool(mean.isnan().all()):
                layer, head = divmod(int(mean.nan_to_num(nan=-torch.inf).argmax()), mean.shape[1])
                largest, error = float(mean[layer, head]), float(self.standard_error(statistic)[layer, head])
                spread = f" (standard error {error:.2g})" if error else ""
                middle = float(mean[~mean.isnan()].median())
                most = f"most in head {layer}.{head}: {largest:.3g}{spread}"
                lines.append(f"{statistic:>10}: median {middle:.3g}, {most}")
        return "\n".join([*lines, str(self.coverage)])

    def _table(self, statistic: str, read: Callable[[Sums, str], Tensor]) -> Tensor:
        if statistic not in STATISTICS:
            raise HeadwiseError(
                who="Recording",
                what="the statistic",
                expected=f"one of {', '.join(STATISTICS)}",
                got=repr(statistic),
                why="Others are not recorded",
                do="Choose one of them",
            )
        most = max((layer.heads for layer in self.layers.values()), default=0)
        table = torch.full((len(self.layers), most), nan, dtype=torch.float64)
        for row, layer in zip(table, self.layers.values(), strict=True):
            row[: layer.heads] = read(layer.sums, statistic)
        return table


def _fewest(first: int | None, second: int | None) -> int | None:
    numbers = [number for number in (first, second) if number is not None]
    return min(numbers, default=None)
