"""Times that can be compared: taken in turn, so that a busy moment hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.experiments.progress import rounds


def seconds_interleaved(
    calls: Sequence[Callable[[], object]], repeats: int, *, doing: str
) -> NDArray[np.float64]:
    """Seconds of each call in each round, ``[repeats, calls]``, after a round that does not count.

    >>> seconds_interleaved([lambda: sum(range(10)), lambda: None], 3, doing="adding").shape
    (3, 2)
    """
    seconds = np.empty((repeats + 1, len(calls)))
    for number in rounds(repeats + 1, doing):
        for step in range(len(calls)):
            which = (step + number) % len(calls)  # every call gets to be first
            start = time.perf_counter()
            calls[which]()
            seconds[number, which] = time.perf_counter() - start
    return seconds[1:]
