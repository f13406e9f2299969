"""Files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwise.core.errors import HeadwiseError


@contextmanager
def replacing(path: str | Path, *, who: str) -> Iterator[Path]:
    """A temporary path beside ``path``, with its ending; what is written there takes its place at the end.

    If anything goes wrong the old file stays as it was. Raises HeadwiseError if the folder is missing or
    cannot be written.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with replacing(folder / "a.txt", who="save") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> [(file.name, file.read_text()) for file in folder.iterdir()]
    [('a.txt', 'whole')]
    """
    path = Path(path)
    temporary = _beside(path, who)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files that only their owner can read
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path, *, who: str) -> None:
    """Refuse a path that ``replacing`` could not write, before the work whose result it is for.

    >>> check_writable(Path(tempfile.mkdtemp()) / "a.txt", who="save")
    """
    _beside(Path(path), who).unlink()


def _beside(path: Path, who: str) -> Path:
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "It is a folder")
        handle, name = tempfile.mkstemp(suffix=path.suffix, prefix=".headwise-", dir=path.parent)
    except OSError as error:
        raise HeadwiseError(
            who=who,
            what="the output path",
            expected="a file in a folder that can be written",
            got=repr(str(path)),
            why=f"{error.strerror or error}",
            do="Choose another path, or make the folder first",
        ) from error
    os.close(handle)
    return Path(name)
