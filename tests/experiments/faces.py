"""What every result promises: a page of 80 plain columns, JSON without rounding, a whole picture."""

import json

from rich.console import Console

from headwise.experiments.result import Result

PNG = b"\x89PNG\r\n\x1a\n"


def check_face(result: Result, *figures: str, coloured: bool = False) -> None:
    """The page holds these figures, is no wider than 80 columns, and uses colour only if it may.

    Where it is coloured, every background brings its own colour of letters, so that any terminal can show it.
    """
    text = str(result)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text, "a table was cut to fit the page"
    for figure in figures:
        assert figure in text, f"{figure} is not on the page:\n{text}"
    for line in Console(width=80, color_system="truecolor", force_terminal=True).render_lines(result):
        for segment in line:
            style = segment.style
            plain = style is None or (style.color is None and style.bgcolor is None)
            assert plain or (coloured and style.color is not None and style.bgcolor is not None)


def check_json(result: Result) -> dict:
    """The JSON text reads back as the dictionary, to the last bit."""
    read = json.loads(result.to_json(), parse_constant=_not_json)
    assert read == result.to_dict()
    return read


def check_picture(result: Result, folder) -> None:
    """The picture is a PNG, alone in its folder."""
    path = result.plot(folder / "picture.png")
    assert path.read_bytes().startswith(PNG)
    assert [file.name for file in folder.iterdir()] == ["picture.png"]


def _not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
