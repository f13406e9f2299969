"""Cuts texts into two halves: heads are chosen on the first and reported on the second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def first_half(documents: Sequence[str]) -> NDArray[np.bool_]:
    """Every other document, or every other text where that leaves a side with less than a quarter of them.

    Texts of a document share words and names, so a document stands on one side where it can.

    >>> first_half(["a", "a", "b", "c"]), first_half(["a", "a", "a"])
    (array([ True,  True, False,  True]), array([ True, False,  True]))
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(documents))}
    half = np.array([numbers[name] % 2 == 0 for name in documents], dtype=bool)
    if 4 * min(half.sum(), (~half).sum()) < len(half):
        return np.array([place % 2 == 0 for place in range(len(half))], dtype=bool)
    return half
