"""What an experiment returns: an object that shows itself, gives JSON and draws itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.core.figures import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

WIDTH = 80  # of a page, in columns


@dataclass(frozen=True)
class Result:
    """A frozen dataclass with a face: ``str`` at 80 columns, ``to_json``, and a picture if it has one."""

    def __rich__(self) -> RenderableType:
        """What a terminal shows, with colours where it has them."""
        raise NotImplementedError

    def figure(self) -> Figure:
        """The result as a matplotlib figure."""
        raise NotImplementedError

    def __str__(self) -> str:
        from rich.console import Console

        page = StringIO()
        Console(file=page, width=WIDTH, color_system=None, force_terminal=False).print(self.__rich__())
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines())

    def to_dict(self) -> dict[str, Any]:
        """Every figure the result holds, unrounded, as plain numbers, lists and dictionaries."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return plain

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def plot(self, path: str | Path) -> Path:
        """Draw ``figure`` to a PNG, SVG or PDF file."""
        return save_figure(self.figure(), path, who="plot")
