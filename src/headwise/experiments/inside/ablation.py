"""What a model loses without some of its heads, beside random heads of the same layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.experiments.result import Result
from headwise.look.calls.coverage import Coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True)
class Effect:
    """What changes without these heads, each named as ``layer.head``.

    ``loss`` is the mean loss in nats per token of a language model, and ``loss_change`` how much higher it
    is than with all heads. Of other models ``output_change`` is the size of the change of the output relative
    to the output (Frobenius norms), ``vector_change`` the cosine distance between the text's vectors, which
    are means over the tokens: 0 the same, 1 unrelated.
    """

    heads: list[str]
    loss: float | None = None
    loss_change: float | None = None
    output_change: float | None = None
    vector_change: float | None = None

    @property
    def size(self) -> float:
        """The figure to compare by: the change of the loss, or that of the output."""
        return (self.output_change if self.loss_change is None else self.loss_change) or 0.0


@dataclass(frozen=True)
class Ablation(Result):
    """A model on one text with all its heads, without the chosen ones, and without random ones.

    ``to`` says what the heads' outputs were replaced by, ``loss`` is the loss with all heads, None for models
    that predict no next token. ``alone`` are the chosen heads one at a time, ``random`` the draws of as many
    other heads of the same layers; there are none where a layer has too few others.
    """

    model: str
    text: str
    tokens: int
    to: str
    loss: float | None
    together: Effect
    alone: list[Effect]
    random: list[Effect]
    seed: int
    coverage: Coverage

    def __rich__(self) -> RenderableType:
        from headwise.experiments.inside.ablation_view import view

        return view(self)

    def figure(self) -> Figure:
        from headwise.experiments.inside.ablation_figure import draw

        return draw(self)
