"""Lets whoever watches a model see attention as one call, by torch's own protocol for functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.overrides import has_torch_function

_watchers = 0  # that have asked and not been told yet


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
