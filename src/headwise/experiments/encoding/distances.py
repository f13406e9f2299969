"""Which distances a report measures, and how a shift of all positions is tried."""

from __future__ import annotations

import numpy as np

SHIFTS = (17, 4099)  # primes, so that no wave comes back to where it was


def distances_below(length: int, most: int = 128) -> tuple[int, ...]:
    """Every distance from 0 to ``length - 1``, or ``most`` evenly spaced ones when there are more.

    >>> distances_below(4), len(distances_below(10_000))
    ((0, 1, 2, 3), 128)
    """
    return tuple(int(k) for k in np.unique(np.linspace(0, length - 1, min(length, most)).round()))
