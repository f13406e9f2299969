"""Lets whoever watches a model see attention as one call, by torch's own protocol for functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch.overrides import has_torch_function

_watchers = 0  # that have asked and not been told yet
_pieces = 0  # attention that is running in several calls, in code that is being compiled


@contextmanager
def watching(more: int = 1) -> Iterator[None]:
    """A block in which ``attention`` hands itself over to a TorchFunctionMode, for one watcher more.

    Without a watcher it never does: a mode that is there for another purpose, as that of a default device,
    is off while it runs a function, and has to stay on for the steps inside attention. A watcher that has
    been told runs the function with ``more=-1``.

    >>> with watching():
    ...     to_be_told()
    False
    """
    global _watchers
    _watchers += more
    try:
        yield
    finally:
        _watchers -= more


def to_be_told() -> bool:
    """Whether there is a watcher, and a mode on this thread that may be it. Compiled code has none.

    >>> to_be_told()
    False
    """
    return not torch.compiler.is_compiling() and _watchers > 0 and has_torch_function((None,))


def in_pieces() -> AbstractContextManager[None]:
    """A block in which attention is not the one call of the kernel that it would look like.

    It matters to a watcher of compiled code alone, who cannot be told.

    >>> with in_pieces():
    ...     is_in_pieces()
    False
    """
    return _in_pieces() if torch.compiler.is_compiling() and _watchers > 0 else nullcontext()


def is_in_pieces() -> bool:
    """Whether code is being compiled for a watcher whose calls of the kernel are not what attention is.

    >>> is_in_pieces()
    False
    """
    return _pieces > 0


@contextmanager
def _in_pieces() -> Iterator[None]:
    global _pieces
    _pieces += 1
    try:
        yield
    finally:
        _pieces -= 1
