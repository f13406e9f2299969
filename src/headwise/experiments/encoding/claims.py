"""What every encoding claims, in one table, read from the encodings themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.core.figures import BLUE, new_figure
from headwise.experiments.result import Result
from headwise.experiments.text import new_table, page, paragraph
from headwise.layers import PositionalEncoding
from headwise.layers.positions.listing import every_encoding

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table

_SHORT = {"embeddings": "embeddings", "queries and keys": "q and k", "scores": "scores"}
_HEADINGS = ("relative", "any length", "cacheable")


@dataclass(frozen=True)
class EncodingClaims:
    """One encoding's claims; None where they are those of the encodings it is made of."""

    name: str
    acts_on: tuple[str, ...] | None
    relative: bool | None
    any_length: bool | None
    cacheable: bool | None
    source: str | None


@dataclass(frozen=True)
class ClaimsReport(Result):
    """The claims of every encoding, by name."""

    encodings: tuple[EncodingClaims, ...]

    def __rich__(self) -> RenderableType:
        return page(
            f"{len(self.encodings)} positional encodings, and what each claims",
            paragraph(
                "relative: adding one number to all positions changes nothing.",
                "any length: defined beyond the positions it was trained on.",
                "cacheable: a key, once encoded, stays valid when the sequence grows.",
                "A test holds each encoding to each claim. A chain claims what all of its encodings do.",
            ),
            self._table(),
        )

    def figure(self) -> Figure:
        rows = list(reversed(self.encodings))
        with new_figure(6.0, 1.2 + 0.28 * len(rows), who="encoding") as figure:
            axes = figure.subplots()
            for row, one in enumerate(rows):
                for column, claim in enumerate(_claims(one)):
                    if claim is not None:
                        axes.scatter(column, row, s=80, color=BLUE if claim else "white", edgecolors=BLUE)
            axes.set(
                title="What encodings claim: filled is yes", xlim=(-0.5, 2.5), ylim=(-0.7, len(rows) - 0.3)
            )
            axes.set_xticks(range(len(_HEADINGS)), _HEADINGS)
            axes.set_yticks(range(len(rows)), [one.name for one in rows])
            return figure

    def _table(self) -> Table:
        table = new_table("encoding", "acts on", *_HEADINGS, "arXiv", left=range(6))
        for one in self.encodings:
            places = "-" if one.acts_on is None else ",\n".join(_SHORT.get(p, p) for p in one.acts_on)
            paper = re.search(r"arXiv ([\d.]+\d)", one.source or "")
            row = (places or "nothing", *map(_word, _claims(one)), paper.group(1) if paper else "-")
            table.add_row(one.name, *row)
        return table


def list_encodings() -> ClaimsReport:
    """What every encoding claims: where it acts, and which properties it has.

    >>> {one.name: one.relative for one in list_encodings().encodings}["Rotary"]
    True
    """
    return ClaimsReport(tuple(_read(encoding) for encoding in every_encoding()))


def _read(encoding: type[PositionalEncoding]) -> EncodingClaims:
    own = hasattr(encoding, "relative")  # one made of others has claims only once it is made
    return EncodingClaims(
        encoding.__name__,
        encoding.acts_on if own else None,
        *(getattr(encoding, claim, None) for claim in ("relative", "any_length", "cacheable", "source")),
    )


def _claims(one: EncodingClaims) -> tuple[bool | None, bool | None, bool | None]:
    return one.relative, one.any_length, one.cacheable


def _word(claim: bool | None) -> str:
    return "-" if claim is None else "yes" if claim else "no"
