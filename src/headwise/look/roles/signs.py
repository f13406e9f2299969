"""How likely the best of many heads is by chance: the largest of all heads over random signs of the texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DRAWS = 9_999
_AT_ONCE = 1_000


def chance_of_best(excess: NDArray[np.float64], *, draws: int = DRAWS, seed: int = 0) -> NDArray[np.float64]:
    """The p-value of every head against the best of all heads under the null, ``[text head]`` to ``[head]``.

    ``excess`` is by how much a head beats its control in each text. If that were nothing but chance, its sign
    in a text could as well be the other one, the same for all heads, which read one text. The statistic
    is ``t = sum_t e_t / sqrt(sum_t e_t^2)``; p is how often the largest t of all heads, over random signs,
    reaches a head's own. Westfall and Young 1993, single-step max T; ``(1 + hits) / (1 + draws)``.

    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(40, 3))
    >>> float(chance_of_best(noise + [0.0, 0.0, 2.0])[2])
    0.0001
    """
    length = np.sqrt((excess**2).sum(0))
    alive = length > 0
    scaled = np.divide(excess, length, out=np.zeros_like(excess), where=alive)
    own = scaled.sum(0)
    random, largest = np.random.default_rng(seed), []
    for start in range(0, draws, _AT_ONCE):
        signs = random.integers(0, 2, size=(min(_AT_ONCE, draws - start), len(excess))) * 2.0 - 1.0
        largest.append((signs @ scaled).max(1))
    # two sums of the same signs may differ in the order of their rounding
    reached = np.concatenate(largest)[:, None] >= own[None] - 1e-9
    chance: NDArray[np.float64] = (1 + reached.sum(0)) / (1 + draws)
    return np.where(alive, chance, 1.0)
