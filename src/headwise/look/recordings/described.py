"""What a recording is beside its sums, as plain data in a file; whatever is read back is checked."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from headwise.look.calls.coverage import Coverage
from headwise.look.recordings.kept import Kept
from headwise.look.recordings.recording import Layer, Recording
from headwise.look.recordings.sums import STATISTICS, Sums

FORMAT = 1
KEPT = re.compile(r"kept-[0-9a-f]{32}\.safetensors")  # a file of another name is none of ours
_OF_LAYER = {"name": str, "heads": int, "kv_heads": int, "kind": str, "calls": int, "documents": int}
_OF_KEPT = {
    "layer": str,
    "document": int,
    "scale": (float, int),
    "causal": (str, type(None)),
    "softcap": (float, int, type(None)),
    "file": str,
}
_OF_COVERAGE = {
    "model": str,
    "seen": dict,
    "modules": dict,
    "unseen": dict,
    "fast_path_off": bool,
    "compared": int,
    "not_comparable": dict,
    "largest_difference": (float, int),
}
_CAUSAL = (None, "upper left", "lower right")
_AS_LONG_AS_THE_TEXTS = ("received", "could")


def described(recording: Recording, kept: list[Kept]) -> dict[str, Any]:
    """The recording without its sums. ``kept`` are what it keeps, each in a file.

    >>> described(Recording(Coverage("Tiny")), [])["format"]
    1
    """
    return {
        "format": FORMAT,
        "statistics": STATISTICS,
        "coverage": asdict(recording.coverage),
        "layers": [{name: getattr(layer, name) for name in _OF_LAYER} for layer in recording.layers.values()],
        "asked_rows": recording.asked_rows,
        "tokens": recording.tokens,
        "kept": [
            {
                **{name: getattr(one, name) for name in _OF_KEPT if name != "file"},
                "file": Path(one.tensors).name,
            }
            for one in kept
            if isinstance(one.tensors, Path)
        ],
    }


def read_described(told: Any, tensors: dict[str, Tensor], folder: Path) -> Recording:  # noqa: ANN401
    """The recording again. Raises ValueError, TypeError or KeyError if anything is not as it was written."""
    if told["format"] != FORMAT or tuple(told["statistics"]) != STATISTICS:
        raise ValueError(f"format {told['format']} is not {FORMAT}")
    layers = {}
    for number, one in enumerate(told["layers"]):
        _check(one, _OF_LAYER)
        layers[one["name"]] = Layer(**one, sums=_sums(number, one["heads"], tensors))
    if len(layers) != len(told["layers"]):
        raise ValueError("two layers have one name")
    kept = [_kept(one, layers, folder) for one in told["kept"]]
    _check(told["coverage"], _OF_COVERAGE)
    _check(told, {"asked_rows": (int, type(None)), "tokens": list})
    return Recording(Coverage(**told["coverage"]), layers, told["asked_rows"], kept, told["tokens"])


def _sums(number: int, heads: int, tensors: dict[str, Tensor]) -> Sums:
    sums = Sums(**{field.name: tensors[f"{number}.{field.name}"] for field in fields(Sums)})
    length = sums.could.numel()
    for field in fields(Sums):
        found = getattr(sums, field.name)
        one, two = (getattr(Sums.empty(count), field.name) for count in (1, 2))
        shape = [heads if size != other else size for size, other in zip(one.shape, two.shape, strict=True)]
        if field.name in _AS_LONG_AS_THE_TEXTS:
            shape[-1] = length
        if found.dtype != one.dtype or list(found.shape) != shape:
            raise ValueError(f"{number}.{field.name} is not {one.dtype} of shape {shape}")
    return sums


def _kept(one: Any, layers: dict[str, Layer], folder: Path) -> Kept:  # noqa: ANN401
    one.setdefault("softcap", None)  # which files from before it lack
    _check(one, _OF_KEPT)
    file = one.pop("file")
    if not KEPT.fullmatch(file) or one["causal"] not in _CAUSAL or one["layer"] not in layers:
        raise ValueError(f"{file!r} is no file of kept queries and keys")
    return Kept(**one, tensors=folder / file)


def _check(one: Any, types: dict[str, Any]) -> None:  # noqa: ANN401
    for name, kind in types.items():
        wrong = isinstance(one[name], bool) and kind is not bool
        if wrong or not isinstance(one[name], kind):
            raise TypeError(f"{name} is {one[name]!r}")
