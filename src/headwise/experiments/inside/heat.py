"""Heat in a terminal: a shade of grey letters everywhere, and the same as colour where there is colour."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, sqrt

from rich.color import Color
from rich.console import Console
from rich.style import Style

SHADES = " .:-=+*#%@"
NONE = "-"
# from dark to light with even steps of brightness, told apart with any kind of colour blindness
_STOPS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_ENOUGH_COLOURS = ("256", "truecolor", "windows")


def has_colours(console: Console) -> bool:
    """Whether a terminal has enough colours to tell ten of them apart.

    >>> has_colours(Console(color_system=None))
    False
    """
    return console.color_system in _ENOUGH_COLOURS and not console.no_color


def shade(level: float) -> str:
    """A letter with more ink the higher the level, from 0 to 1.

    >>> "".join(shade(level / 9) for level in range(10))
    ' .:-=+*#%@'
    """
    return SHADES[round(min(max(level, 0.0), 1.0) * (len(SHADES) - 1))]


def colour(level: float) -> Style:
    """A background for the level, and letters that can be read on it.

    >>> colour(0.0).color.name, colour(1.0).color.name
    ('#ffffff', '#000000')
    """
    place = min(max(level, 0.0), 1.0) * (len(_STOPS) - 1)
    below = min(int(place), len(_STOPS) - 2)
    mixed = [
        round(a + (b - a) * (place - below)) for a, b in zip(_STOPS[below], _STOPS[below + 1], strict=True)
    ]
    light = 0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2] > 115
    letters = Color.from_rgb(0, 0, 0) if light else Color.from_rgb(255, 255, 255)
    return Style(bgcolor=Color.from_rgb(*mixed), color=letters)


def levels(values: Sequence[float | None]) -> list[float]:
    """Each value's place between the lowest and the highest; 0 for all if they are the same, NaN for none.

    >>> levels([2.0, 3.0, 4.0, None])
    [0.0, 0.5, 1.0, nan]
    """
    there = [value for value in values if value is not None]
    lowest, highest = min(there, default=0.0), max(there, default=0.0)
    spread = highest - lowest or 1.0
    return [float("nan") if value is None else (value - lowest) / spread for value in values]


def square_root(level: float) -> float:
    """A scale on which small weights are seen beside large ones.

    >>> square_root(0.25)
    0.5
    """
    return level if isnan(level) else sqrt(max(level, 0.0))


def number(value: float | None) -> str:
    """A value in four letters, as exact as they allow.

    >>> [number(value) for value in (0.456, 3.14159, 27.18, 512.4, 12_345.6, None)]
    ['0.46', '3.14', '27.2', ' 512', ' 12k', '   -']
    """
    if value is None:
        return f"{NONE:>4}"
    size = abs(value)
    if size < 9.995:
        return f"{value:4.2f}"
    if size < 99.95:
        return f"{value:4.1f}"
    return f"{value:4.0f}" if size < 9999.5 else f"{value / 1000:3.0f}k"


def short_number(value: float | None) -> str:
    """A value in three letters.

    >>> [short_number(value) for value in (0.456, 0.999, 3.14159, 27.18, 512.4, 12_345.6, None)]
    ['.46', '1.0', '3.1', ' 27', '512', '12k', '  -']
    """
    if value is None:
        return f"{NONE:>3}"
    size = abs(value)
    if size < 0.995:
        return f"{value:.2f}".replace("0.", ".", 1)
    if size < 9.95:
        return f"{value:.1f}"
    return f"{value:3.0f}" if size < 999.5 else f"{value / 1000:2.0f}k"
