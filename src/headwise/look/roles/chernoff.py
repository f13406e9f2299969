"""A bound on how likely a score is by chance that is known, of a shape that is not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SMALLEST, _LARGEST = 1e-3, 40.0  # of lambda times rows: below there is no evidence, above nothing changes
_HALVINGS = 12


def chernoff_bound(score: Floats, control: Floats, counts: Floats) -> Floats:
    """At most how likely each head scores so much by chance: ``score`` and ``control`` are ``[unit head]``.

    A unit, a text or a document, scores between 0 and its ``counts``, ``n_t``, and by chance its mean is
    ``n_t c_t``, its control. Units are independent; rows inside a unit need not be, and nothing need be
    symmetric. As exp is convex, no such unit has a larger ``E exp(lambda s_t)`` than a coin for all of its
    rows at once, so for every ``lambda > 0``

        P(sum_t s_t >= s) <= exp(sum_t log(1 - c_t + c_t exp(lambda n_t)) - lambda s)

    The lambda that makes it smallest is found by halving; any other would give a bound too. Hoeffding 1963,
    proof of theorem 1; Chernoff 1952. For the best of so many heads, multiply by their number.

    >>> twenty = np.ones((20, 1))  # right in each of 20 texts, which chance is in 4 of 5
    >>> round(float(chernoff_bound(twenty, 0.8 * twenty, np.ones(20))[0]), 6), round(0.8**20, 6)
    (0.011529, 0.011529)
    """
    asked = counts > 0
    n = counts[asked][:, None]
    if not len(n):
        return np.ones(score.shape[1])
    chance = np.clip(control[asked] / n, 0.0, 1.0)
    own = np.minimum(score[asked].sum(0), n.sum())  # sums of rounded numbers may go beyond
    with np.errstate(divide="ignore"):
        right, wrong = np.log(chance), np.log1p(-chance)
    low = np.full(score.shape[1], np.log(_SMALLEST / n.max()))
    high = np.full(score.shape[1], np.log(_LARGEST / n.min()))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        too_large = _mean(np.exp(middle) * n + right - wrong, n) > own
        low, high = np.where(too_large, low, middle), np.where(too_large, middle, high)
    # where even the largest is too small, it is the largest that is used: all of the rows are right
    exponents = [_exponent(np.exp(each), n, right, wrong, own) for each in (low, high)]
    bound: Floats = np.exp(np.minimum(0.0, np.minimum(*exponents)))
    return bound


def _mean(logit: Floats, n: Floats) -> Floats:
    """The slope of the sum of logs: ``sum_t n_t sigmoid(logit_t)``."""
    with np.errstate(over="ignore"):
        found: Floats = (n / (1.0 + np.exp(-logit))).sum(0)
    return found


def _exponent(at: Floats, n: Floats, right: Floats, wrong: Floats, own: Floats) -> Floats:
    found: Floats = np.logaddexp(wrong, right + at * n).sum(0) - at * own
    return found
