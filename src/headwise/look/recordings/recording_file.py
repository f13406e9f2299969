"""Recordings as files: one safetensors file for the sums, beside those of kept queries and keys."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from headwise.core import HeadwiseError
from headwise.core.files import check_writable, replacing
from headwise.look.recordings.described import described, read_described
from headwise.look.recordings.kept import Kept, write_kept
from headwise.look.recordings.recording import Recording
from headwise.look.recordings.sums import Sums

FILE = "recording.safetensors"


def save(recording: Recording, folder: str | Path) -> Path:
    """Write the recording; whoever is interrupted leaves the old one or the new one.

    Kept queries and keys have names of their own and are written first; one renaming then makes the new
    recording the recording, and only then do those files of the old one go away that it does not name.
    """
    folder = Path(folder)
    check_folder(folder, who="save")
    kept = [_in_folder(one, folder) for one in recording.kept]
    old = _names_of_kept(folder)
    tensors = {
        f"{number}.{field.name}": getattr(layer.sums, field.name).contiguous()
        for number, layer in enumerate(recording.layers.values())
        for field in fields(Sums)
    }
    with replacing(folder / FILE, who="save") as temporary:
        save_file(tensors, temporary, metadata={"headwise": json.dumps(described(recording, kept))})
    for name in old - {_path(one).name for one in kept}:
        (folder / name).unlink(missing_ok=True)
    return folder / FILE


def load(folder: str | Path) -> Recording:
    """The recording in a folder. Raises HeadwiseError if it is missing, damaged or from another format."""
    folder = Path(folder)
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            told = json.loads((file.metadata() or {})["headwise"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return read_described(told, tensors, folder)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise HeadwiseError(
            who="load",
            what="the folder",
            expected="one with a whole recording",
            got=repr(str(folder)),
            why=f"{FILE} cannot be read: {type(error).__name__}: {error}".rstrip("."),
            do="Check the path, or record again",
        ) from error


def check_folder(folder: Path, *, who: str) -> None:
    """Make a folder for a recording. Raises HeadwiseError if it cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeadwiseError(
            who=who,
            what="the folder",
            expected="one that can be made",
            got=repr(str(folder)),
            why=f"{error.strerror}",
            do="Choose another path",
        ) from error
    check_writable(folder / FILE, who=who)


def _in_folder(kept: Kept, folder: Path) -> Kept:
    if isinstance(kept.tensors, Path) and kept.tensors.parent.resolve() == folder.resolve():
        return kept
    return replace(kept, tensors=write_kept(folder, kept.load()))


def _path(kept: Kept) -> Path:
    assert isinstance(kept.tensors, Path)
    return kept.tensors


def _names_of_kept(folder: Path) -> set[str]:
    """The kept files of the recording that is there now, if any."""
    try:
        return {_path(one).name for one in load(folder).kept}
    except HeadwiseError:
        return set()
