"""Is attention order-blind? Permute the words and see whether the outputs do no more than permute too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.core import Causal, HeadwiseError
from headwise.core.figures import BLUE, GREY, ORANGE, PURPLE, new_figure
from headwise.experiments.named import NAMES, named_position
from headwise.experiments.result import Result
from headwise.experiments.sizes import check_divides, check_size
from headwise.experiments.text import new_table, page, paragraph
from headwise.layers import MultiHeadAttention

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

# what moves, and under which mask: the three questions asked of each encoding
_COLUMNS = {
    "words": ("words move", BLUE),
    "words, causal mask": ("under a causal mask", ORANGE),
    "words and positions": ("positions move too", PURPLE),
}
_MIRRORED = "words, reversed"
_MOST_WORDS, _MOST_DIMENSIONS = 1024, 4096


@dataclass(frozen=True)
class PermutedCase:
    """One encoding, what was permuted, and the relative difference ``|f(P x) - P f(x)| / |f(x)|``."""

    encoding: str
    moved: str
    difference: float
    knows_order: bool

    @property
    def verdict(self) -> str:
        """The finding in words."""
        return "knows order" if self.knows_order else "order-blind"


@dataclass(frozen=True)
class EquivarianceReport(Result):
    """``knows_order`` of a case says that its difference is above ``tolerance``, the most rounding can do."""

    length: int
    model_dim: int
    heads: int
    seed: int
    dtype: str
    tolerance: float
    permutation: tuple[int, ...]
    cases: tuple[PermutedCase, ...]

    def case(self, encoding: str, moved: str = "words") -> PermutedCase:
        """The case of that encoding; ``moved`` is "words", "words, causal mask" or "words and positions"."""
        return next(case for case in self.cases if (case.encoding, case.moved) == (encoding, moved))

    def __rich__(self) -> RenderableType:
        mirrored = self.case("alibi", _MIRRORED)
        return page(
            f"Is attention order-blind? {self.length} random words, {self.heads} heads, {self.dtype}",
            paragraph(
                "Permute the words, P x, and compare: |layer(P x) - P layer(x)| / |layer(x)|. A layer that",
                "is order-blind only permutes its outputs. Rounding alone can give up to"
                f" {self.tolerance:.0e}.",
            ),
            self._table(),
            paragraph(
                "Without an encoding the words' order is lost. A causal mask brings it back:",
                "a word sees only those before it. When each word keeps its position number while",
                "it moves, the outputs only permute again: to the layer, order is nothing but those numbers.",
            ),
            paragraph(
                "One mirror: ALiBi without a mask reads how far a word is and not on which side, so the",
                f"exactly reversed sentence gives {mirrored.difference:.0e} ({mirrored.verdict}).",
            ),
        )

    def figure(self) -> Figure:
        with new_figure(8.0, 4.8, who="equivariance") as figure:
            axes = figure.subplots()
            least = self.tolerance / 1e4
            for row, encoding in enumerate(NAMES):
                for column, (moved, (label, color)) in enumerate(_COLUMNS.items()):
                    difference = self.case(encoding, moved).difference
                    place = row + 0.27 * (column - 1)
                    axes.barh(
                        place,
                        max(difference, least),
                        height=0.25,
                        color=color,
                        label=label if row == 0 else None,
                    )
                    axes.text(
                        max(difference, least) * 1.4, place, _short(difference), va="center", fontsize=7
                    )
            axes.axvline(self.tolerance, color=GREY, linestyle="--", linewidth=1)
            axes.set_xscale("log")
            axes.set(xlim=(least, 50), ylim=(len(NAMES) - 0.5, -0.5))
            axes.set_yticks(range(len(NAMES)), NAMES)
            axes.text(
                self.tolerance, -0.55, "the most rounding can do", ha="center", va="bottom", color="0.35"
            )
            axes.set_xlabel("relative difference |layer(P x) - P layer(x)| / |layer(x)|")
            axes.set_title("Permute the words: does the output do more than permute?", pad=18)
            figure.legend(loc="outside lower center", ncols=3)
            return figure

    def _table(self) -> Table:
        table = new_table("encoding", *(words for words, _ in _COLUMNS.values()), left=[0, 1, 2, 3])
        for encoding in NAMES:
            cases = [self.case(encoding, moved) for moved in _COLUMNS]
            table.add_row(encoding, *(f"{_short(case.difference):>7} {case.verdict}" for case in cases))
        return table


def _short(difference: float) -> str:
    return "0" if difference == 0 else f"{difference:.0e}" if difference < 0.01 else f"{difference:.2f}"


def permute_and_compare(
    *,
    length: int = 12,
    model_dim: int = 64,
    heads: int = 4,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> EquivarianceReport:
    """Permute the input of an attention layer and compare ``layer(P x)`` with ``P layer(x)``.

    Every named encoding is tried without a mask, with a causal mask, and with positions that move with their
    words. Without encoding and mask the two are equal to rounding: self-attention is permutation
    equivariant (Lee et al. 2019, arXiv 1810.00825, section 3). Raises HeadwiseError for fewer than three
    words, for sizes that do not divide, and for a dtype other than float32 or float64.

    >>> report = permute_and_compare()
    >>> report.case("none").verdict, report.case("none", "words, causal mask").verdict
    ('order-blind', 'knows order')
    """
    _check(length, model_dim, heads, seed, dtype)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, length, model_dim, generator=generator, dtype=torch.float64).to(dtype)
    permutation = _shuffled(length, generator)
    reverse = torch.arange(length).flip(0)
    cases = []
    for name in NAMES:
        layer = _layer(name, length, model_dim, heads, seed, dtype)
        tries = {
            "words": _difference(layer, x, permutation),
            "words, causal mask": _difference(layer, x, permutation, causal=True),
            "words and positions": _difference(layer, x, permutation, positions_move=True),
            _MIRRORED: _difference(layer, x, reverse),
        }
        cases += [(name, moved, difference) for moved, difference in tries.items()]
    tolerance = _rounding(length, model_dim, heads, dtype)
    return EquivarianceReport(
        length=length,
        model_dim=model_dim,
        heads=heads,
        seed=seed,
        dtype=str(dtype).removeprefix("torch."),
        tolerance=tolerance,
        permutation=tuple(permutation.tolist()),
        cases=tuple(PermutedCase(*case, knows_order=case[-1] > tolerance) for case in cases),
    )


def _check(length: int, model_dim: int, heads: int, seed: int, dtype: torch.dtype) -> None:
    check_size(length, _MOST_WORDS, who="equivariance", what="length")
    check_size(model_dim, _MOST_DIMENSIONS, who="equivariance", what="model_dim")
    check_divides(heads, model_dim, who="equivariance", what="heads")
    if length < 3:
        raise HeadwiseError(
            who="equivariance",
            what="length",
            expected="at least 3",
            got=str(length),
            why="Two words can only be swapped, which is a mirror and leaves all distances as they were",
            do="Use 12 words",
        )
    if not 0 <= seed < 2**63:
        raise HeadwiseError(
            who="equivariance",
            what="seed",
            expected="from 0 to 2^63 - 1",
            got=str(seed),
            why="Random numbers are drawn from a state of 64 bits",
            do="Use 0",
        )
    if dtype not in (torch.float32, torch.float64):
        raise HeadwiseError(
            who="equivariance",
            what="dtype",
            expected="float32 or float64",
            got=str(dtype),
            why="In half precision rounding is as large as what positions do",
            do="Use torch.float64",
        )


def _shuffled(length: int, generator: torch.Generator) -> Tensor:
    """A random order that is neither the old one nor its mirror."""
    order = torch.arange(length)
    while True:
        permutation = torch.randperm(length, generator=generator)
        if not torch.equal(permutation, order) and not torch.equal(permutation, order.flip(0)):
            return permutation


def _layer(
    name: str, length: int, model_dim: int, heads: int, seed: int, dtype: torch.dtype
) -> MultiHeadAttention:
    position = named_position(name, model_dim=model_dim, heads=heads, max_length=length)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MultiHeadAttention(model_dim, heads, position=position).to(dtype).eval()


@torch.no_grad()
def _difference(
    layer: MultiHeadAttention,
    x: Tensor,
    permutation: Tensor,
    *,
    causal: bool = False,
    positions_move: bool = False,
) -> float:
    mask = Causal() if causal else None
    in_order: Tensor = layer(x, mask=mask)
    permuted = layer(x[:, permutation], mask=mask, positions=permutation if positions_move else None)
    return float((permuted - in_order[:, permutation]).norm() / in_order.norm())


def _rounding(length: int, model_dim: int, heads: int, dtype: torch.dtype) -> float:
    """A rounding for each term of the longest chain of sums: two projections, a score, softmax and values."""
    terms = 2 * model_dim + model_dim // heads + 2 * length
    return terms * torch.finfo(dtype).eps
