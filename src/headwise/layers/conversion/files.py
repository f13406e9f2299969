"""Weights and configuration from a safetensors file or a folder of them. Nothing else is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from headwise.core.errors import HeadwiseError


def read_safetensors(path: str | Path) -> dict[str, Tensor]:
    """The weights of a safetensors file, or of all that lie in a folder.

    Raises HeadwiseError for a path that is no such file, a folder without one, and a damaged file. Pickled
    files are not opened, since they can run code.

    >>> from tempfile import TemporaryDirectory
    >>> from safetensors.torch import save_file
    >>> with TemporaryDirectory() as folder:
    ...     save_file({"weight": torch.ones(2)}, f"{folder}/tiny.safetensors")
    ...     read_safetensors(folder)
    {'weight': tensor([1., 1.])}
    """
    path = Path(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files or any(file.suffix != ".safetensors" or not file.is_file() for file in files):
        raise HeadwiseError(
            who="read_safetensors",
            what="the path",
            expected="a .safetensors file, or a folder that holds one",
            got=repr(str(path)),
            why="Other formats of weights can run code when they are opened",
            do="Save the weights with safetensors.torch.save_file where you trust them",
        )
    weights: dict[str, Tensor] = {}
    for file in files:
        try:
            weights |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise _damaged(file, "a whole safetensors file", error) from error
    return weights


def read_configuration(folder: str | Path) -> dict[str, Any]:
    """What ``config.json`` beside the weights says. Raises HeadwiseError if none can be read."""
    folder = Path(folder)
    file = (folder if folder.is_dir() else folder.parent) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError(f"it holds a {type(config).__name__}")
    except (OSError, ValueError) as error:
        raise _damaged(file, "the configuration of a model in JSON", error) from error
    return config


def _damaged(file: Path, expected: str, error: Exception) -> HeadwiseError:
    lines = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()
    return HeadwiseError(
        who="read_safetensors",
        what="the file",
        expected=expected,
        got=repr(str(file)),
        why=f"It cannot be read ({lines[0].rstrip('.')})",
        do="Fetch it again, or pass the configuration yourself",
    )
