"""All encodings there are, found in their files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from headwise.layers.positions.encoding import PositionalEncoding


def every_encoding() -> tuple[type[PositionalEncoding], ...]:
    """The encodings of this folder, by name: a new file is found without being named anywhere.

    >>> [encoding.__name__ for encoding in every_encoding()][:3]
    ['ALiBi', 'AxialRotary', 'BEiTTable']
    """
    folder = import_module(__package__ or "")
    for module in walk_packages(folder.__path__, f"{folder.__name__}."):
        import_module(module.name)
    here = {
        encoding
        for encoding in _below(PositionalEncoding)
        if encoding.__module__.startswith(f"{folder.__name__}.") and not encoding.__name__.startswith("_")
    }
    return tuple(sorted(here, key=lambda encoding: encoding.__name__))


def _below(encoding: type[PositionalEncoding]) -> Iterator[type[PositionalEncoding]]:
    for kind in encoding.__subclasses__():
        yield kind
        yield from _below(kind)
