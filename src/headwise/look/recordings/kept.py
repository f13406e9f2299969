"""Queries and keys that a recording keeps, so that any window of its maps can be opened later."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from headwise.core import AttentionMap, HeadwiseError
from headwise.core.files import check_writable, replacing
from headwise.look.calls.call import AttentionCall

_PARTS = ("q", "k", "visible", "bias", "sinks")


@dataclass(frozen=True, eq=False)
class Kept:
    """One text's queries and keys in one layer, without padding: in memory, or in a file.

    ``document`` counts the texts of the recording. ``causal``, ``scale`` and ``softcap`` are those of
    ``AttentionCall``.

    >>> q = torch.zeros(1, 2, 3, 4)
    >>> Kept("attn", 0, 0.5, "lower right", {"q": q, "k": q}).map(head=1).shape
    (1, 1, 3, 3)
    """

    layer: str
    document: int
    scale: float
    causal: Any
    tensors: dict[str, Tensor] | Path
    softcap: float | None = None

    def map(self, head: int | None = None) -> AttentionMap:
        """The attention map of all heads, or of one: only that one is read from a file."""
        with self._parts() as parts:
            heads = _shape(parts["q"])[1]
            found: dict[str, Any] = {}
            for name, part in parts.items():
                of_heads = _shape(part)[1]
                first, last = (0, of_heads) if head is None else (head * of_heads // heads,) * 2
                found[name] = part[:, first : last + (head is not None)]
        q, k = found["q"], found["k"]
        how = {"scale": self.scale, "causal": self.causal, "softcap": self.softcap}
        return AttentionCall(v=k, output=q, **how, **found).map()

    def load(self) -> dict[str, Tensor]:
        """Every tensor, from memory or from the file."""
        with self._parts() as parts:
            return {name: part[:] for name, part in parts.items()}

    @contextmanager
    def _parts(self) -> Iterator[dict[str, Any]]:
        if isinstance(self.tensors, dict):
            yield self.tensors
            return
        try:
            with safe_open(self.tensors, framework="pt") as file:
                parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                _check_parts({name: tuple(part.get_shape()) for name, part in parts.items()})
                yield parts
        except (OSError, SafetensorError, ValueError) as error:
            raise HeadwiseError(
                who="recording",
                what="the file of kept queries and keys",
                expected="there and whole",
                got=repr(self.tensors.name),
                why=f"It cannot be read: {error}".rstrip("."),
                do="Record the text again",
            ) from error


@runtime_checkable
class Keep(Protocol):
    """Where a recording keeps queries and keys."""

    def keep(self, layer: str, document: int, call: AttentionCall) -> Kept: ...


class InMemory:
    """Keeps queries and keys in memory.

    >>> x = torch.zeros(1, 1, 2, 4)
    >>> InMemory().keep("attn", 0, AttentionCall(x, x, x, x, scale=1.0)).map().shape
    (1, 1, 2, 2)
    """

    def keep(self, layer: str, document: int, call: AttentionCall) -> Kept:
        """A copy of what the call's map needs."""
        return Kept(layer, document, call.scale, call.causal, tensors_of(call), call.softcap)


class OnDisk:
    """Keeps queries and keys in a folder, a safetensors file for each layer of each text.

    Raises HeadwiseError if the folder cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        check_writable(self.folder / "kept.safetensors", who="OnDisk")

    def keep(self, layer: str, document: int, call: AttentionCall) -> Kept:
        """The call's queries and keys, written; they are read when the map is opened."""
        path = write_kept(self.folder, tensors_of(call))
        return Kept(layer, document, call.scale, call.causal, path, call.softcap)


def _check_parts(shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless these are the tensors of one call."""
    q, k = shapes.get("q", ()), shapes.get("k", ())
    if not {"q", "k"} <= set(shapes) <= set(_PARTS) or any(len(shape) != 4 for shape in shapes.values()):
        raise ValueError(f"it holds {', '.join(shapes) or 'nothing'}")
    fits = q[0] == k[0] and q[3] == k[3] and 0 < k[1] <= q[1] and q[1] % k[1] == 0
    pairs = [shapes[name] for name in ("visible", "bias") if name in shapes]
    sizes = (q[0], q[1], q[2], k[2])
    if not fits or any(x not in (1, size) for pair in pairs for x, size in zip(pair, sizes, strict=True)):
        raise ValueError("its tensors do not fit each other")


def tensors_of(call: AttentionCall) -> dict[str, Tensor]:
    """Copies of the tensors that make the call's map; what an encoding adds becomes one, too."""
    parts = {name: getattr(call, name) for name in _PARTS}
    if call.terms is not None and call.terms.of_scores is not None:
        parts["bias"] = call.terms.dense()
    return {
        name: part.detach().clone(memory_format=torch.contiguous_format)
        for name, part in parts.items()
        if part is not None
    }


def write_kept(folder: Path, tensors: dict[str, Tensor]) -> Path:
    """Write tensors to a new file in the folder, whole or not at all, and give its path."""
    path = folder / f"kept-{uuid.uuid4().hex}.safetensors"
    with replacing(path, who="recording") as temporary:
        save_file(tensors, temporary)
    return path


def _shape(part: Any) -> Any:  # noqa: ANN401
    return part.shape if isinstance(part, Tensor) else part.get_shape()
