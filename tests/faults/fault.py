"""What a planted fault and a sound module are, for the tables beside."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headwise.check import Report


@dataclass(frozen=True)
class Fault:
    """A small piece of attention code with one classic fault.

    ``check`` runs the property named ``caught_by`` on it, its inputs and weights in the dtype given.
    ``seen_in`` names public code that had the fault.
    """

    name: str
    caught_by: str
    seen_in: str
    check: Callable[[torch.dtype], Report]


@dataclass(frozen=True)
class Sound:
    """A piece of attention code without a fault; ``check`` runs every property that applies to it."""

    name: str
    check: Callable[[torch.dtype], list[Report]]
