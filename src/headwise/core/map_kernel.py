"""All statistics of rows of scores in one pass over each, compiled by numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import unwrap

import numpy as np

_LOWEST = np.finfo(np.float32).min
_LOG2_E = np.float32(1.44269504)
_LN_2 = np.log(2.0)
READINGS = 10  # of each row
_BLOCK = 512  # terms added in float32 before their sum goes to float64


@lru_cache(maxsize=1)
def rows_kernel() -> Callable[..., None] | None:
    """The compiled function, or None where numba is not installed or cannot be imported.

    The first call in a folder compiles it, which takes seconds; numba keeps the result on disk.

    >>> kernel = rows_kernel()
    >>> kernel is None or callable(kernel)
    True
    """
    try:
        import numba
    except ImportError:
        return None

    def compiled(keep: bool) -> Callable[..., None]:
        # only bounded scores come here: without NaN sums and maxima are taken several terms at a time
        fast = {"nnan", "nsz", "reassoc", "contract"}
        return numba.njit(cache=keep, fastmath=fast)(unwrap(_read_rows))

    try:
        return compiled(keep=True)
    except RuntimeError:  # there is no folder to keep it in
        return compiled(keep=False)


def _read_rows(
    scores: np.ndarray,
    sinks: np.ndarray,
    counts: np.ndarray,
    table: np.ndarray,
    histogram: np.ndarray,
    received: np.ndarray,
    pooled: np.ndarray,
    places: np.ndarray,
    bins: np.ndarray,
    edges: np.ndarray,
    key_bins: np.ndarray,
    first_key: int,
    keep_weights: bool,
) -> None:
    """Reads ``scores[matrix, row]``, of which a hidden one is the lowest number; column 0 is ``first_key``.

    ``places[row]`` is a row's own place among the keys. ``table[matrix, row]`` becomes entropy, largest
    weight, largest score, normalizer, the weights on the own place, the one before, the one after and key 0,
    mean and spread of distances. Each row, times its count, is added to ``histogram[matrix]`` by distance, to
    ``received[matrix]``, and to ``pooled[matrix, bins[row]]`` by bins of keys. With ``keep_weights`` the
    weights replace the scores. ``sinks`` may have no rows.
    """
    # loops go over slices from 0 and not from a start: only of those the compiler takes several terms at once
    columns = scores.shape[2]
    weights = np.empty(columns, np.float32)
    powers = np.empty(columns, np.int32)
    factors, lanes = powers.view(np.float32), np.empty(64, np.float32)
    in_bin = np.zeros(columns, np.float32)  # what rows of one bin give
    rows = scores.shape[1]
    for matrix in range(len(scores)):
        for row in range(rows + 1):
            if row == rows or bins[row] != bins[max(0, row - 1)]:
                to, pool = received[matrix, first_key : first_key + columns], pooled[matrix, bins[row - 1]]
                for j in range(columns):
                    to[j] += in_bin[j]
                for b in range(len(key_bins) - 1):
                    start, stop = max(0, key_bins[b] - first_key), min(columns, key_bins[b + 1] - first_key)
                    pool[b] += in_bin[start : max(start, stop)].sum()
                in_bin[:] = np.float32(0)
            if row == rows:
                break
            s, found, place = scores[matrix, row], table[matrix, row], places[row] - first_key
            seen = columns
            while seen > 0 and s[seen - 1] <= _LOWEST:
                seen -= 1
            if seen == 0:
                found[:] = 0.0
                found[2] = -np.inf
                found[3] = sinks[matrix, row] if sinks.shape[1] else -np.inf
                if keep_weights:
                    s[:] = np.float32(0)
                continue
            lanes[:] = s[0]
            for start in range(0, seen, len(lanes)):
                some = s[start : min(seen, start + len(lanes))]
                for j in range(len(some)):
                    lanes[j] = max(lanes[j], some[j])
            largest = lanes.max()
            # exp(x) = 2^k exp(g) with |g| <= ln 2 / 2, and the bits of 2^k written as a number's exponent
            for j in range(seen):
                x = max(s[j] - largest, np.float32(-200))
                k = np.floor(x * _LOG2_E + np.float32(0.5))
                g = np.float32(np.float64(x) - np.float64(k) * _LN_2)
                p = np.float32(1 / 120) + g * (np.float32(1 / 720) + g * np.float32(1 / 5040))
                p = np.float32(1 / 6) + g * (np.float32(1 / 24) + g * p)
                weights[j] = np.float32(1) + g * (np.float32(1) + g * (np.float32(0.5) + g * p))
                powers[j] = max(np.int32(k) + np.int32(127), np.int32(0)) << np.int32(23)
            total, apart = np.float64(0), np.float64(0)
            for start in range(0, seen, _BLOCK):
                part, part_apart = np.float32(0), np.float32(0)
                stop = min(seen, start + _BLOCK)
                w, f, t = weights[start:stop], factors[start:stop], s[start:stop]
                for j in range(len(w)):
                    w[j] *= f[j]
                for j in range(len(w)):
                    part += w[j]
                    part_apart += w[j] * (largest - t[j])
                total += part
                apart += part_apart
            normalizer, mass = largest + np.log(total), 1.0
            entropy = apart / total + np.log(total)
            if sinks.shape[1]:
                high = max(normalizer, np.float64(sinks[matrix, row]))
                low = min(normalizer, np.float64(sinks[matrix, row]))
                both = high + np.log1p(np.exp(low - high)) if high < np.inf else high
                mass = np.exp(normalizer - both)
                normalizer = both
                entropy = entropy * mass - mass * np.log(mass) if mass > 0 else 0.0
            share = np.float32(mass / total)
            counted = share * counts[matrix, row]
            w = weights[:seen]
            for j in range(len(w)):
                in_bin[j] += w[j] * counted
            seen_mass, first, second = 0.0, 0.0, 0.0
            for b in range(len(edges) - 1):
                near, far = edges[b], edges[b + 1]
                at_distance = 0.0
                for side in range(2):
                    if side == 0:  # distances near, ..., far - 1 before the own place, and then after it
                        start, stop, towards = max(0, place - far + 1), min(seen, place - near + 1), -1.0
                    else:
                        start, stop, towards = max(0, place + max(near, 1)), min(seen, place + far), 1.0
                    at, mass_here, first_here, second_here = towards * (start - place), 0.0, 0.0, 0.0
                    w = weights[start : max(start, stop)]
                    for j in range(len(w)):
                        weight, distance = np.float64(w[j]), at + towards * np.float64(np.int32(j))
                        mass_here += weight
                        first_here += weight * distance
                        second_here += weight * distance * distance
                    at_distance += mass_here
                    first += first_here
                    second += second_here
                seen_mass += at_distance
                histogram[matrix, b] += at_distance * counted
            mean, square = first / seen_mass, second / seen_mass  # not the rounded total: they cancel
            if mass == 0:  # a sink of infinity
                mean, square = np.float64(0), np.float64(0)
            found[0], found[1], found[2], found[3] = entropy, share, largest, normalizer
            for beside in range(3):
                at_key = place + (0, -1, 1)[beside]
                found[4 + beside] = weights[at_key] * share if 0 <= at_key < seen else np.float32(0)
            found[7] = weights[0] * share if first_key == 0 else np.float32(0)
            found[8], found[9] = mean, np.sqrt(max(0.0, square - mean * mean))
            if keep_weights:
                for j in range(seen):
                    s[j] = weights[j] * share
                s[seen:] = np.float32(0)
