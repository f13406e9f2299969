"""How far two runs that should be equal may be apart by rounding alone."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.check.inputs import Inputs


def same_kernels(output: Tensor) -> float:
    """Two runs of one shape add in the same order: at most two roundings of the largest output each.

    >>> same_kernels(torch.ones(3)) == 2 * torch.finfo(torch.float32).eps
    True
    """
    return 4 * _eps(output.dtype) * largest(output)


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
    return float(depth * (sums + 2 * 8 * _eps(output.dtype)) * largest(output))


def same_share(inputs: Inputs, x: Tensor, output: Tensor) -> float:
    """`same_kernels` as a share of the largest output, in the precision the thing under test computes in.

    >>> from headwise.check.inputs import Vectors
    >>> x = torch.zeros(1, 2, 3, dtype=torch.bfloat16)
    >>> same_share(Vectors(3, torch.bfloat16), x, output=x.float())
    0.015625

    A mixture of experts computes together what it sends to one expert, so that other contents elsewhere
    make other shapes: its inputs say so by ``regroups``, the number of its layers.
    """
    regroups = getattr(inputs, "regroups", 0)
    if regroups:
        return other_share(inputs, x, output, regroups)
    return same_kernels(torch.ones((), dtype=precision(inputs, x, output)))


def other_share(inputs: Inputs, x: Tensor, output: Tensor, depth: int = 1) -> float:
    """`other_kernels` as a share of the largest output; a sum has as many terms as the widest axis.

    >>> from headwise.check.inputs import Vectors
    >>> 1e-6 < other_share(Vectors(64), torch.zeros(1, 2, 64), torch.zeros(1, 2, 64)) < 2e-5
    True
    """
    terms = max(x.shape[-1], *output.shape[1:])
    return other_kernels(torch.ones((), dtype=precision(inputs, x, output)), terms, depth)


def permuted_share(inputs: Inputs, x: Tensor, output: Tensor, depth: int = 1) -> float:
    """What one output may differ by when the other places come in another order.

    Every step is the same but the sums over places, in float32 or better; what they give is rounded once,
    and so is what follows it in the layer: two roundings each, as in `same_kernels`.

    >>> from headwise.check.inputs import Vectors
    >>> x = torch.zeros(1, 2, 64)
    >>> same_share(Vectors(64), x, x) < permuted_share(Vectors(64), x, x) < other_share(Vectors(64), x, x)
    True
    """
    one = torch.ones((), dtype=precision(inputs, x, output))
    return depth * (other_kernels(one, x.shape[1]) - 12 * _eps(one.dtype))


def precision(inputs: Inputs, x: Tensor, output: Tensor) -> torch.dtype:
    """The coarsest dtype in sight: a float32 output of bfloat16 inputs is no better than these.

    >>> from headwise.check.inputs import Tokens
    >>> precision(Tokens(9, dtype=torch.bfloat16), torch.zeros(1, 2).long(), torch.zeros(1, 2, 9))
    torch.bfloat16
    """
    seen = [output.dtype, x.dtype, getattr(inputs, "dtype", None)]
    return max((dtype for dtype in seen if dtype is not None and dtype.is_floating_point), key=_eps)


def largest(output: Tensor) -> float:
    """The largest absolute value among the finite ones, 0 if there are none.

    >>> largest(torch.tensor([1.0, -2.0, torch.inf]))
    2.0
    """
    finite = output.detach()[output.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _eps(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps) / 2  # rounding to nearest
