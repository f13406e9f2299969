"""Files of labels as text, and the one form of what is said about a bad one: the file and the line first."""

from __future__ import annotations

from pathlib import Path

from headwise.errors import HeadwiseError


def bad_line(
    path: str | Path, line: int, *, what: str, expected: str, got: str, why: str, do: str = ""
) -> HeadwiseError:
    """The error for a line of a file, in the form that editors can jump to: ``file.conllu:123: ...``."""
    do = do or "Correct the line"
    return HeadwiseError(who=f"{path}:{line}", what=what, expected=expected, got=got, why=why, do=do)


def text_of(path: str | Path, *, kind: str) -> str:
    """What the file says, read as UTF-8, with line ends as they are in Python.

    Raises HeadwiseError if the file cannot be read, is not UTF-8, or holds nothing but white space.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise _bad_file(path, kind, f"{error.strerror or error}", "Check the path") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        got, why = f"the byte 0x{data[error.start]:02x}", "It is in another encoding, or no text"
        raise bad_line(
            path, line, what="the text", expected="UTF-8", got=got, why=why, do="Convert the file"
        ) from error
    if not text.strip():
        raise _bad_file(path, kind, "The file is empty", "Give one that holds at least one text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _bad_file(path: str | Path, kind: str, why: str, do: str) -> HeadwiseError:
    return HeadwiseError(
        who=f"{path}:1",
        what="the file",
        expected=f"a {kind} file",
        got=repr(Path(path).name),
        why=why,
        do=do,
    )
