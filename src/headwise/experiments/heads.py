"""One head against many: what stays, what gets narrower, and what a forward pass costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.core.figures import BLUE, ORANGE, PURPLE, new_figure
from headwise.experiments.pictures import side_by_side
from headwise.experiments.result import Result
from headwise.experiments.sizes import check_divides, check_size
from headwise.experiments.text import new_table, page, paragraph
from headwise.experiments.timing import seconds_interleaved
from headwise.layers import MultiHeadAttention

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

_MOST_DIMENSIONS, _MOST_TOKENS, _MOST_REPEATS = 8192, 2048, 10_000


@dataclass(frozen=True)
class HeadCount:
    """What a layer with that many heads has and does in one forward pass over ``length`` tokens.

    ``rank`` is the numerical rank, in float64, of one head's scores Q K^T on random tokens, and
    ``rank_bound`` the most it can be: min(length, head_dim). ``ratio`` is the median over the rounds of its
    time over that of one head in the same round, between the quartiles ``ratio_low`` and ``ratio_high``.
    """

    heads: int
    head_dim: int
    parameters: int
    projection_multiply_adds: int
    score_multiply_adds: int
    value_multiply_adds: int
    softmax_weights: int
    rank_bound: int
    rank: int
    seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def multiply_adds(self) -> int:
        """Those of the four projections, of the scores, and of the weighted sums of the values."""
        return self.projection_multiply_adds + self.score_multiply_adds + self.value_multiply_adds


@dataclass(frozen=True)
class HeadsReport(Result):
    """One row for each number of heads, one head first; times are this machine's, in float32."""

    model_dim: int
    length: int
    repeats: int
    seed: int
    threads: int
    counts: tuple[HeadCount, ...]

    def __rich__(self) -> RenderableType:
        one = self.counts[0]
        return page(
            f"One head or many: model_dim {self.model_dim}, {self.length} tokens",
            paragraph(
                f"The same weights, cut into more heads: {one.parameters:,} parameters and",
                f"{_million(one.multiply_adds)} million multiply-adds",
                f"({_million(one.projection_multiply_adds)} in the projections,",
                f"{_million(one.score_multiply_adds)} in the scores,",
                f"{_million(one.value_multiply_adds)} in the values).",
            ),
            self._table(),
            paragraph(
                "So the cost of more heads isn't more parameters. It is narrower heads:",
                f"{self.model_dim} dimensions are shared out, and the scores of a head of d dimensions, a",
                f"{self.length} x {self.length} matrix, reach rank d at most.",
                "That is why the number of heads must divide model_dim.",
                "What does grow is the number of softmax weights: one matrix for each head.",
            ),
            paragraph(
                f"Time: median (quartiles) over {self.repeats} interleaved rounds on this machine,"
                f" {self.threads} {'thread' if self.threads == 1 else 'threads'}, float32;"
                f" one head took {one.seconds * 1e3:.2f} ms.",
            ),
        )

    def figure(self) -> Figure:
        with new_figure(10.0, 4.2, who="heads") as figure:
            left, right = side_by_side(figure, (1.0, 1.0))
            self._draw_sizes(left)
            self._draw_times(right)
            for axes in (left, right):
                axes.set_xscale("log", base=2)
                axes.set_xticks([c.heads for c in self.counts], [str(c.heads) for c in self.counts])
                axes.minorticks_off()
                axes.set_xlabel("number of heads")
            return figure

    def _draw_sizes(self, axes: Axes) -> None:
        one = self.counts[0]
        heads = [c.heads for c in self.counts]
        lines = (
            ("softmax weights", PURPLE, "v", [c.softmax_weights / one.softmax_weights for c in self.counts]),
            (
                "parameters, multiply-adds",
                BLUE,
                "o",
                [c.multiply_adds / one.multiply_adds for c in self.counts],
            ),
            ("dimensions per head", ORANGE, "s", [c.head_dim / one.head_dim for c in self.counts]),
        )
        for label, color, marker, values in lines:
            axes.plot(heads, values, color=color, marker=marker, label=label)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(title="What stays, what shrinks, what grows", ylabel="times that of one head")
        axes.legend()

    def _draw_times(self, axes: Axes) -> None:
        heads = [c.heads for c in self.counts]
        ratios = np.array([c.ratio for c in self.counts])
        low, high = (
            np.array([getattr(c, name) for c in self.counts]) for name in ("ratio_low", "ratio_high")
        )
        axes.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
        axes.errorbar(heads, ratios, yerr=(ratios - low, high - ratios), color=BLUE, marker="o", capsize=3)
        axes.set_ylim(0, max(1.5, 1.1 * float(high.max())))
        axes.set(
            title="Time of a forward pass, this machine", ylabel="times that of one head (median, quartiles)"
        )

    def _table(self) -> Table:
        table = new_table("heads", "dims per head", "rank of scores", "softmax weights", "time / one head")
        for count in self.counts:
            time_ratio = f"{count.ratio:.2f} ({count.ratio_low:.2f}-{count.ratio_high:.2f})"
            table.add_row(
                str(count.heads),
                str(count.head_dim),
                f"{count.rank} of {self.length}",
                f"{count.softmax_weights:,}",
                "1" if count.heads == 1 else time_ratio,
            )
        return table


def _million(count: int) -> str:
    return f"{count / 1e6:,.1f}"


def compare_head_counts(
    model_dim: int = 512,
    heads: Sequence[int] = (1, 2, 4, 8, 16),
    *,
    length: int = 256,
    repeats: int = 30,
    seed: int = 0,
) -> HeadsReport:
    """The same weights cut into each number of heads, on the same tokens; one head is always there.

    Parameters are counted in the real layers; multiply-adds are ``4 length model_dim^2`` for the projections
    and ``length^2 model_dim`` each for scores and values, whatever the number of heads. Vaswani et al. 2017,
    arXiv 1706.03762, section 3.2.2. Raises HeadwiseError for a count that does not divide ``model_dim``.

    >>> report = compare_head_counts(12, [4], length=6, repeats=1)
    >>> [(count.heads, count.head_dim, count.parameters, count.rank) for count in report.counts]
    [(1, 12, 624, 6), (4, 3, 624, 3)]
    """
    _check(model_dim, heads, length, repeats)
    layers = _layers(model_dim, sorted({1, *heads}), seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, length, model_dim, generator=generator, dtype=torch.float64)
    seconds = _seconds(layers, x.float(), repeats)
    ratios = seconds / seconds[:, :1]
    return HeadsReport(
        model_dim=model_dim,
        length=length,
        repeats=repeats,
        seed=seed,
        threads=torch.get_num_threads(),
        counts=tuple(
            _count(layer, x, seconds[:, number], ratios[:, number]) for number, layer in enumerate(layers)
        ),
    )


def _count(
    layer: MultiHeadAttention, x: Tensor, seconds: NDArray[np.float64], ratios: NDArray[np.float64]
) -> HeadCount:
    length, width = x.shape[1], layer.heads * layer.head_dim
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return HeadCount(
        heads=layer.heads,
        head_dim=layer.head_dim,
        parameters=sum(parameter.numel() for parameter in layer.parameters()),
        projection_multiply_adds=4 * length * layer.model_dim * width,
        score_multiply_adds=layer.heads * length * length * layer.head_dim,
        value_multiply_adds=layer.heads * length * length * layer.head_dim,
        softmax_weights=layer.heads * length * length,
        rank_bound=min(length, layer.head_dim),
        rank=_rank_of_scores(layer, x[0]),
        seconds=float(np.median(seconds)),
        ratio=float(middle),
        ratio_low=float(low),
        ratio_high=float(high),
    )


@torch.no_grad()
def _rank_of_scores(layer: MultiHeadAttention, x: Tensor) -> int:
    """The rank of the first head's ``Q K^T``, in float64."""
    q, k = (x @ projection.weight[: layer.head_dim].T.double() for projection in (layer.query, layer.key))
    return int(torch.linalg.matrix_rank(q @ k.T))


@torch.inference_mode()
def _seconds(layers: list[MultiHeadAttention], x: Tensor, repeats: int) -> NDArray[np.float64]:
    return seconds_interleaved([partial(layer, x) for layer in layers], repeats, doing="timing heads")


def _layers(model_dim: int, counts: Sequence[int], seed: int) -> list[MultiHeadAttention]:
    """A layer for each count, all holding the very same weights: only the cut into heads differs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = MultiHeadAttention(model_dim, counts[0])
    layers = [first]
    for count in counts[1:]:
        with torch.device("meta"):
            layer = MultiHeadAttention(model_dim, count)
        layer.load_state_dict(first.state_dict(), assign=True)
        layers.append(layer)
    return [layer.eval() for layer in layers]


def _check(model_dim: int, heads: Sequence[int], length: int, repeats: int) -> None:
    check_size(model_dim, _MOST_DIMENSIONS, who="heads", what="model_dim")
    check_size(length, _MOST_TOKENS, who="heads", what="length")
    check_size(repeats, _MOST_REPEATS, who="heads", what="repeats")
    for count in heads:
        check_divides(count, model_dim, who="heads", what="each number of heads")
