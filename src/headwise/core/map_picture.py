"""A map as a small picture, in text and in a notebook."""

from __future__ import annotations

from html import escape

from jaxtyping import Float
from torch import Tensor

TEXT_BINS, HTML_BINS = 16, 32
_HEADS_IN_TEXT, _HEADS_IN_HTML = 4, 8
_SHADES = " .:-=+*#%@"
_GAP = "  "


def as_text(title: str, overview: Float[Tensor, "heads query key"] | None) -> str:
    """The first heads side by side: queries down, keys across, darkest where a query looks most.

    >>> import torch
    >>> print(as_text("Two heads", torch.eye(3).expand(2, 3, 3)))
    Two heads
    head 0  head 1
    @       @
     @       @
      @       @
    """
    if overview is None or 0 in overview.shape:
        return title
    heads, rows, columns = overview.shape
    shown = min(heads, _HEADS_IN_TEXT)
    width = max(columns, len("head 00") - 1)
    lines = [title, _GAP.join(f"head {head}".ljust(width) for head in range(shown))]
    pictures = [_shaded(overview[head]) for head in range(shown)]
    lines += [_GAP.join(picture[row].ljust(width) for picture in pictures) for row in range(rows)]
    if heads > shown:
        lines.append(f"and {heads - shown} more heads")
    return "\n".join(line.rstrip() for line in lines)


def as_html(title: str, overview: Float[Tensor, "heads query key"] | None) -> str:
    """The same with squares of the text's own colour, so that it reads on light and on dark.

    >>> import torch
    >>> as_html("One head", torch.ones(1, 1, 1)).count("<rect")
    1
    """
    caption = f"<div>{escape(title)}</div>"
    if overview is None or 0 in overview.shape:
        return caption
    figures = []
    for head, picture in enumerate(_relative(overview[:_HEADS_IN_HTML])):
        rows, columns = picture.shape
        squares = "".join(
            f'<rect x="{column}" y="{row}" width="1" height="1" fill-opacity="{shade:.2f}"/>'
            for row, line in enumerate(picture.tolist())
            for column, shade in enumerate(line)
            if shade >= 0.01
        )
        figures.append(
            f'<figure style="display:inline-block;margin:4px"><svg viewBox="0 0 {columns} {rows}" '
            f'width="128" height="128" preserveAspectRatio="none" fill="currentColor" role="img" '
            f'style="border:1px solid">{squares}</svg><figcaption>head {head}</figcaption></figure>'
        )
    return caption + "".join(figures)


def _relative(overview: Tensor) -> Tensor:
    """Each row over its largest entry; the square root shows small ones too."""
    largest = overview.amax(-1, keepdim=True)
    return (overview / largest.where(largest > 0, 1.0)).sqrt()


def _shaded(picture: Tensor) -> list[str]:
    steps = (_relative(picture) * (len(_SHADES) - 1)).round().int().tolist()
    return ["".join(_SHADES[step] for step in line) for line in steps]
