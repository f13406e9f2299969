"""Is a score the product of query and key over sqrt(head_dim), once?"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from headwise.check.asking import ask, checked
from headwise.check.report import Report, judged

Attend = Callable[..., Tensor]
"""Takes q, k, v, each ``[batch heads length head_dim]``, gives that shape; some take a mask after them."""

_CAUSE = (
    "Usually the scale is applied by two places (by hand and inside a fused kernel), by none, or from the "
    "wrong width: look for every sqrt and every scale= between the projections and the softmax"
)
_KEYS = 5


@checked("scale", do="Pass a callable that takes q, k, v [batch heads length head_dim]")
def scale(
    attend: Attend,
    *,
    head_dims: tuple[int, ...] = (16, 64),
    heads: int = 3,
    kv_heads: int | None = None,
    expected: Callable[[int], float] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Report:
    """A score is ``q . k / sqrt(head_dim)``: the factor is applied exactly once.

    Read from probabilities: with q = k_0 = a e1 and other keys of zero, ``log(p_0 / p_1) = factor * a^2``.
    ``expected`` gives another factor that is meant, such as ``lambda head_dim: 1.0`` in T5. The figure is
    the largest error of such a logarithm.

    >>> from torch.nn.functional import scaled_dot_product_attention as attend
    >>> from headwise.check import scale
    >>> scale(attend).verdict
    'holds'
    >>> scale(lambda q, k, v: attend(q / q.shape[-1] ** 0.5, k, v)).failing
    'scores are scaled twice: the factor is 0.0625 at head_dim 16, not 0.25'
    """
    meant = expected or (lambda head_dim: head_dim**-0.5)
    tried = f"head_dim {', '.join(map(str, head_dims))} with {heads} heads"
    largest = (0.0, 0.0)
    factors = {width: _factor(attend, width, heads, kv_heads or heads, dtype) for width in head_dims}
    for width, factor in factors.items():
        worst = abs(factor - meant(width)) * _product(width)
        # a score of order 1 and two probabilities round a few times each
        limit = 12 * torch.finfo(dtype).eps / 2
        if not worst <= limit:
            numbers = f"the factor is {factor:.4g} at head_dim {width}, not {meant(width):.4g}"
            failing = f"{_words(factors, heads)}: {numbers}"
            return judged("scale", worst, limit, tried=tried, failing=failing, cause=_CAUSE)
        largest = max(largest, (worst, limit))
    return judged("scale", *largest, tried=tried, failing="", cause=_CAUSE)


def _factor(attend: Attend, head_dim: int, heads: int, kv_heads: int, dtype: torch.dtype) -> float:
    """What the scores are multiplied by."""
    product = _product(head_dim)
    q = torch.zeros(1, heads, _KEYS, head_dim, dtype=dtype)
    k = torch.zeros(1, kv_heads, _KEYS, head_dim, dtype=dtype)
    v = torch.zeros(1, kv_heads, _KEYS, head_dim, dtype=dtype)
    q[..., 0] = k[..., 0, 0] = product**0.5
    v[...] = torch.eye(_KEYS, head_dim)
    weights = ask(attend, q, k, v, shape=q.shape)[0, 0, 0].double()
    return float(weights[0].log() - weights[1].log()) / product


def _product(head_dim: int) -> float:
    """q . k, so that a right score is about 1: a power of 4, whose root is exact."""
    return float(4.0 ** math.floor(math.log(head_dim, 16) + 1e-9))


def _words(factors: dict[int, float], heads: int) -> str:
    """What the factors are a known mistake for, at every head_dim tried."""
    known: dict[str, Callable[[int], float]] = {
        "scores are not scaled": lambda head_dim: 1.0,
        "scores are scaled twice": lambda head_dim: 1 / head_dim,
        "scores are multiplied by sqrt(head_dim), not divided": lambda head_dim: head_dim**0.5,
        "scores are divided by sqrt(model_dim)": lambda head_dim: (heads * head_dim) ** -0.5,
        "scores are divided by sqrt(heads)": lambda head_dim: heads**-0.5,
        "scores are divided by sqrt(length)": lambda head_dim: _KEYS**-0.5,
    }
    for words, formula in known.items():
        if all(math.isclose(factor, formula(width), rel_tol=0.05) for width, factor in factors.items()):
            return words
    return "scores have another scale"
