"""Weights drawn anew through a tree of modules, each by the module that owns them."""

from __future__ import annotations

from torch import nn


def reset_children(module: nn.Module) -> None:
    """Call ``reset_parameters`` of everything right below a module, or of what is below that.

    A module that has the method answers for all it contains, so the walk stops there.

    >>> layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> reset_children(layer)
    """
    for child in module.children():
        reset(child)


def reset(module: nn.Module) -> None:
    """Call ``reset_parameters`` of a module, or of what is below it.

    >>> reset(torch.nn.Linear(2, 2))
    """
    own = getattr(module, "reset_parameters", None)
    if callable(own):
        own()
    else:
        reset_children(module)
