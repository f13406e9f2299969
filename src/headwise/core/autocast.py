"""Torch's autocast: is it on, and how to keep it from rounding what was made wide on purpose."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def autocast_is_on(device: torch.device) -> bool:
    """Whether autocast chooses the dtypes of products on that device; False where there is none, as on meta.

    >>> with torch.autocast("cpu"):
    ...     autocast_is_on(torch.device("cpu")), autocast_is_on(torch.device("meta"))
    (True, False)
    """
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def without_autocast(device: torch.device) -> AbstractContextManager[None]:
    """A block in which products keep the dtype of their inputs.

    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu"), without_autocast(x.device):
    ...     (x @ x).dtype
    torch.float32
    """
    return torch.autocast(device.type, enabled=False) if autocast_is_on(device) else nullcontext()
