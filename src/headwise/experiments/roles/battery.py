"""What the battery of roles found: every role with its heads, every head with its role, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwise.experiments.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from headwise.look.roles.copying import Copying

NO_ROLE = "none"


@dataclass(frozen=True)
class HeadScore:
    """One head in one role, on the half of the texts that it was not chosen on.

    ``low`` and ``high`` are the 95 % interval of ``score``, ``error`` its standard error;
    ``whole`` is the score on all texts. ``value_weighted`` weighs attention by the length of what values
    carry, ``without_sinks`` leaves out special tokens and the first. ``baseline`` is what the best head
    scores that knows only distance, or nothing; ``control`` what this head's attention scores by chance, or
    on the control texts. ``p`` is against the best of all heads by chance, times the number of roles asked.
    """

    head: str
    score: float
    low: float
    high: float
    error: float
    whole: float
    value_weighted: float
    without_sinks: float
    baseline: float
    control: float
    p: float
    held: bool


@dataclass(frozen=True)
class RoleResult:
    """One role: what was asked, of how much data, and the heads that hold it.

    ``heads`` come in the order of their scores on the first half of the texts, on which they are chosen;
    ``best`` is the first of all heads in it, whether it holds the role or not. ``units`` says what errors
    and p take to be independent, such as "37 documents", or texts where there are few documents.
    ``verdict`` is "held"; or "position" where nobody holds the role, a fixed distance is right in half of
    the rows or more, and the best head scores alike, either at least four fifths of the other; or "none".
    ``copies`` says of a language model's heads of induction how far they raise the logit of the token that
    they look at.
    """

    role: str
    family: str
    asks: str
    data: str
    rows: int
    texts: int
    units: str
    baseline_name: str
    least: float
    margin: float
    best: HeadScore
    heads: list[HeadScore]
    verdict: str
    copies: list[Copying] = field(default_factory=list)


@dataclass(frozen=True)
class Confirmation:
    """What happens to the thing a role is about without its heads, beside random ones.

    ``what`` says what was measured, ``before`` without removing anything; ``random`` are draws of heads of
    the same layers that do not hold the role, ``random_heads`` of them in each: as many as were removed, or
    as many as there are.
    """

    role: str
    heads: list[str]
    what: str
    before: float
    without: float
    random: list[float]
    random_heads: int


@dataclass(frozen=True)
class RoleBattery(Result):
    """What each head of a model does, as far as its attention tells.

    ``untrained_seed`` is that of random weights, None where the model's own were asked.
    ``of_heads`` is the best-supported role of each head by layer, or "none"; ``left_out`` says which roles
    were not asked and why; ``sentences`` are the tutorials' four, each with its verdict.
    """

    model: str
    untrained_seed: int | None
    data: list[str]
    roles: list[RoleResult]
    of_heads: list[list[str]]
    share_with_role: float
    left_out: dict[str, str]
    sentences: dict[str, str]
    confirmed: list[Confirmation]
    coverage: str

    @property
    def full_name(self) -> str:
        """The model, and whether its weights were random."""
        seed = self.untrained_seed
        return self.model if seed is None else f"{self.model} with random weights (seed {seed})"

    def __rich__(self) -> RenderableType:
        from headwise.experiments.roles.battery_view import view

        return view(self)

    def figure(self) -> Figure:
        from headwise.experiments.roles.battery_figure import figure_of

        return figure_of(self)
