"""Recordings as files: one safetensors file for the sums, beside those of kept queries and keys."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.core.files import check_writable, replacing
from headwise.look.coverage import Coverage
from headwise.look.kept import Kept, write_kept
from headwise.look.recording import Layer, Recording
from headwise.look.sums import STATISTICS, Sums

FILE = "recording.safetensors"
_FORMAT = 1
_OF_LAYER = ("name", "heads", "kv_heads", "kind", "calls", "documents")
_OF_KEPT = ("layer", "document", "scale", "causal")


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
        save_file(tensors, temporary, metadata={"headwise": json.dumps(_description(recording, kept))})
    for name in old - {_path(one).name for one in kept}:
        (folder / name).unlink(missing_ok=True)
    return folder / FILE


def load(folder: str | Path) -> Recording:
    """The recording in a folder. Raises HeadwiseError if it is missing, damaged or from another format."""
    folder = Path(folder)
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            described = json.loads((file.metadata() or {})["headwise"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if described["format"] != _FORMAT or tuple(described["statistics"]) != STATISTICS:
            raise ValueError(f"format {described['format']} is not {_FORMAT}")
        return _recording(described, tensors, folder)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise HeadwiseError(
            who="load",
            what="the folder",
            expected="one with a whole recording",
            got=repr(str(folder)),
            why=f"{FILE} cannot be read: {type(error).__name__}: {error}",
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


def _description(recording: Recording, kept: list[Kept]) -> dict[str, Any]:
    layers = [{name: getattr(layer, name) for name in _OF_LAYER} for layer in recording.layers.values()]
    return {
        "format": _FORMAT,
        "statistics": STATISTICS,
        "coverage": asdict(recording.coverage),
        "layers": layers,
        "asked_rows": recording.asked_rows,
        "tokens": recording.tokens,
        "kept": [
            {**{name: getattr(one, name) for name in _OF_KEPT}, "file": _path(one).name} for one in kept
        ],
    }


def _recording(described: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Recording:
    layers = {}
    for number, one in enumerate(described["layers"]):
        sums = Sums(**{field.name: tensors[f"{number}.{field.name}"] for field in fields(Sums)})
        expected = Sums.empty(one["heads"])
        for field in fields(Sums):
            found, wanted = getattr(sums, field.name), getattr(expected, field.name)
            last = -1 if field.name in ("received", "could") else None  # which are as long as the texts
            if found.dtype != wanted.dtype or found.shape[:last] != wanted.shape[:last]:
                raise ValueError(f"{number}.{field.name} does not fit {one['heads']} heads")
        layers[one["name"]] = Layer(**one, sums=sums)
    kept = []
    for one in described["kept"]:
        name = Path(one.pop("file")).name  # a path in it would lead out of the folder
        kept.append(Kept(**one, tensors=folder / name))
    return Recording(
        Coverage(**described["coverage"]), layers, described["asked_rows"], kept, described["tokens"]
    )


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
