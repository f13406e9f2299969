"""Opens a plain PyTorch model: what a callable of your own module gives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from torch import nn

from headwise.core import HeadwiseError
from headwise.models.model import Model


def open_plain(name: str) -> Model:
    """The ``nn.Module`` that ``module:callable`` gives when called without arguments, in evaluation mode.

    The module is looked for in the current folder too, as ``python -m`` does. Raises HeadwiseError if it
    cannot be imported, has no such callable, if the call fails, or if it gives no ``nn.Module``.

    >>> open_plain("torch.nn:Flatten").network
    Flatten(start_dim=1, end_dim=-1)
    """
    module, _, path = name.partition(":")
    with _current_folder_importable():
        built = _attempt(name, lambda: attrgetter(path)(import_module(module)))
        if not isinstance(built, nn.Module):
            built = _attempt(name, built)
    if not isinstance(built, nn.Module):
        raise _not_plain(name, f"it gave {type(built).__name__}, which is no nn.Module")
    return Model(name, built.eval())


def _attempt(name: str, step: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever foreign code gives
    try:
        return step()
    except Exception as error:  # foreign code may raise anything
        reason = " ".join(str(error).split()) or "without a message"
        raise _not_plain(name, f"it raised {type(error).__name__}: {reason.rstrip('.')}") from error


def _not_plain(name: str, why: str) -> HeadwiseError:
    return HeadwiseError(
        who="model",
        what="module:callable",
        expected="a callable that gives an nn.Module when called without arguments",
        got=repr(name),
        why=why[0].upper() + why[1:],
        do="Name a function that builds the model, such as my_model:build",
    )


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
