"""The look of every picture: matplotlib, colours that the colour-blind can tell apart, safe writing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.core.errors import HeadwiseError
from headwise.core.files import check_writable, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito 2008: told apart with any kind of colour blindness
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F"
DIVERGING = "RdBu"
RISING = "viridis"
ENDINGS = (".png", ".svg", ".pdf")


@contextmanager
def new_figure(width: float, height: float, *, who: str) -> Iterator[Figure]:
    """An empty figure of that size in inches, to be drawn within the block; needs no screen.

    Raises HeadwiseError if matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise HeadwiseError(
            who=who,
            what="matplotlib",
            expected="installed to draw a picture",
            got="no such package",
            why="It is an optional dependency",
            do="Run: pip install 'headwise[plots]'",
        ) from error
    style: dict[Any, Any] = {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with rc_context(style):
        yield Figure(figsize=(width, height), layout="constrained", facecolor="white")


def check_picture(path: str | Path, *, who: str) -> None:
    """Refuse a path that ``save_figure`` could not write, before the work whose picture it is for."""
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        named = path.stem.strip(".") and path.name.lower() not in ENDINGS
        raise HeadwiseError(
            who=who,
            what="the picture's path",
            expected=f"one that ends in {', '.join(ENDINGS)}",
            got=repr(str(path)),
            why="The ending chooses the format",
            do=f"Write to {str(path.with_suffix('.png') if named else 'picture.png')!r}",
        )
    check_writable(path, who=who)


def save_figure(figure: Figure, path: str | Path, *, who: str) -> Path:
    """Write the figure as PNG, SVG or PDF, by the path's ending, whole or not at all."""
    path = Path(path)
    check_picture(path, who=who)
    with replacing(path, who=who) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter the font lacks is drawn as a box
        figure.savefig(temporary, dpi=150)
    return path
