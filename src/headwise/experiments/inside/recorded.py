"""Runs a model once while it is recorded, with a bar over its layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwise.core import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.experiments.inside.subject import Subject
from headwise.experiments.progress import counting
from headwise.look import AttentionCall, OnDisk, Recording, record, save
from headwise.look.recordings.kept import Kept
from headwise.look.recordings.recording_file import check_folder

SAMPLE = 512
# below that a causal model's rows see no more keys altogether than 512 rows of a text twice as long
ALL_UP_TO = 2 * SAMPLE


def rows_to_read(rows: int | str | None, tokens: int) -> int | None:
    """How many query rows to read, None for all; where nothing is asked, a sample of long texts.

    >>> rows_to_read("all", 99_999), rows_to_read(None, 99_999), rows_to_read(None, 30), rows_to_read(64, 30)
    (None, 512, None, None)
    """
    if rows == "all":
        return None
    if rows is None:
        return None if tokens <= ALL_UP_TO else SAMPLE
    if isinstance(rows, str):
        raise HeadwiseError(
            who="inspect",
            what="rows",
            expected="a number or 'all'",
            got=repr(rows),
            why="That many query rows are read of each head, drawn at random",
            do=f"Leave it out for {SAMPLE} rows of a long text and all of a short one",
        )
    check_positive(rows, who="inspect", what="rows")
    return rows if rows < tokens else None


def recorded(subject: Subject, rows: int | None, folder: Path | None) -> Recording:
    """One pass of the model over its text; kept and saved where there is a ``folder``.

    The logits of a language model are computed for the last token alone: 10,000 tokens of 49,152 logits
    would take 2 GB. Raises HeadwiseError as ``look.record`` does, and if the folder cannot be written.
    """
    if folder is None:
        return _run(subject, rows, None)
    with _nothing_left_behind(folder) as files:
        check_folder(folder, who="inspect")
        recording = _run(subject, rows, _Noted(folder, files))
        save(recording, folder)
        return recording


def _run(subject: Subject, rows: int | None, keep: OnDisk | None) -> Recording:
    doing = f"{subject.name}: layers read"
    with (
        record(subject.network, rows=rows, special=subject.special, keep=keep) as recording,
        counting(doing, lambda: len(recording.layers), subject.layers),
    ):
        subject.run(logits_to_keep=1, use_cache=False)
    recording.tokens = [subject.tokens]
    return recording


class _Noted(OnDisk):
    """Keeps on disk, and remembers what it wrote."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        super().__init__(folder)
        self.files = files

    def keep(self, layer: str, document: int, call: AttentionCall) -> Kept:
        kept = super().keep(layer, document, call)
        if isinstance(kept.tensors, Path):
            self.files.append(kept.tensors)
        return kept


@contextmanager
def _nothing_left_behind(folder: Path) -> Iterator[list[Path]]:
    """A block that takes the files it lists away if it does not end well, and the folder if it is new."""
    new = not folder.exists()
    files: list[Path] = []
    try:
        yield files
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        if new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise
