"""How far two runs that should be equal may be apart by rounding alone."""

from __future__ import annotations

import torch
from torch import Tensor


def same_kernels(output: Tensor) -> float:
    """Two runs of one shape add in the same order: at most two roundings of the largest output each.

    >>> same_kernels(torch.ones(3)) == 2 * torch.finfo(torch.float32).eps
    True
    """
    return 4 * _eps(output.dtype) * _largest(output)


def other_kernels(output: Tensor, terms: int, depth: int = 1) -> float:
    """Two runs of other shapes may add in another order.

    Sums of ``terms`` products are off by about ``sqrt(terms)`` roundings of float32 or better, in which
    kernels add, through ``depth`` layers of four such sums each; and each step of a layer, about eight,
    rounds once to the output's own precision. All of it twice, for two runs.

    >>> 1e-6 < other_kernels(torch.ones(3), terms=64) < 2e-5
    True
    """
    wide = torch.promote_types(output.dtype, torch.float32)
    sums = 2 * 4 * terms**0.5 * torch.finfo(wide).eps
    return float(depth * (sums + 2 * 8 * _eps(output.dtype)) * _largest(output))


def _eps(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps) / 2  # rounding to nearest


def _largest(output: Tensor) -> float:
    finite = output.detach()[output.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
