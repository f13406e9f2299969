"""All statistics of rows of scores in one pass over each, compiled by numba, which this file needs."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any

import numba
import numpy as np

_LOWEST = np.finfo(np.float32).min  # the score of a hidden key within a row's range
_BLOCK = 512  # terms added in float32 before their sum goes to float64
_LOG2_E = np.float32(1.44269504)
_LN_2_HIGH = np.float32(0.693359375)  # so few digits that its product with a whole number is exact
_LN_2_LOW = np.float32(np.log(2.0) - 0.693359375)
_WHOLE = np.float32(1.5 * 2**23)  # what is added to it is rounded to a whole number, kept in the lowest bits
_AS_WRITTEN = ("nnan", "nsz", "contract")  # only bounded scores come here, and no NaN
_ANY_ORDER = (*_AS_WRITTEN, "reassoc")  # sums are taken several terms at a time


def _part(*fastmath: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function part of the one that calls it.

    Apart, it would be compiled once by itself and once more in what is kept on disk, and round in two ways.
    """

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        plain, flags = unwrap(function), set(fastmath)
        part: Callable[..., Any] = numba.njit(plain, fastmath=flags, error_model="numpy", forceinline=True)
        return part

    return made


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function at its first call in a folder, which takes seconds; the result stays on disk."""

    def made(keep: bool) -> Callable[..., Any]:
        plain, flags = unwrap(function), set(_ANY_ORDER)
        whole: Callable[..., Any] = numba.njit(plain, cache=keep, fastmath=flags, error_model="numpy")
        return whole

    try:
        return made(True)
    except RuntimeError:  # there is no folder for it
        return made(False)


# Loops go over slices from 0 and not from a start: only of those the compiler takes several terms at once.


@_part(*_ANY_ORDER)
def _largest(bits: np.ndarray) -> np.int32:
    """The largest of some numbers given as their bits: of whole numbers it is found five times faster."""
    largest = np.int32(-0x80000000)
    for j in range(len(bits)):
        largest = max(largest, np.int32(bits[j] ^ ((bits[j] >> 31) & 0x7FFFFFFF)))
    return np.int32(largest ^ ((largest >> 31) & 0x7FFFFFFF))


@_part(*_AS_WRITTEN)
def _powers(scores: np.ndarray, largest: np.float32, weights: np.ndarray, whole: np.ndarray) -> None:
    """``exp(s - largest) = 2^k exp(g)`` with ``|g| <= ln 2 / 2``: exp(g), and k in the bits of ``whole``."""
    for j in range(len(scores)):
        x = max(scores[j] - largest, np.float32(-88))  # from -87.7 on it is 0
        whole[j] = x * _LOG2_E + _WHOLE
        k = whole[j] - _WHOLE
        g = (x - k * _LN_2_HIGH) - k * _LN_2_LOW
        p = np.float32(1 / 120) + g * (np.float32(1 / 720) + g * np.float32(1 / 5040))
        p = np.float32(1 / 6) + g * (np.float32(1 / 24) + g * p)
        weights[j] = np.float32(1) + g * (np.float32(1) + g * (np.float32(0.5) + g * p))


@_part(*_ANY_ORDER)
def _scaled(
    scores: np.ndarray, largest: np.float32, weights: np.ndarray, powers: np.ndarray, bits: np.ndarray
) -> tuple[np.float32, np.float32]:
    """Multiplies the weights by 2^k, made of k as an exponent's bits; sums of w and of w (largest - s)."""
    for j in range(len(weights)):
        bits[j] = (bits[j] + np.int32(127)) << np.int32(23)
    total, apart = np.float32(0), np.float32(0)
    for j in range(len(weights)):
        weight = weights[j] * powers[j]
        weights[j] = weight
        total += weight
        apart += weight * (largest - scores[j])
    return total, apart


@_part(*_ANY_ORDER)
def _moments(weights: np.ndarray, steps: np.ndarray) -> tuple[float, float, float]:
    mass, first, second = 0.0, 0.0, 0.0
    for j in range(len(weights)):
        weight = np.float64(weights[j])
        moment = weight * steps[j]
        mass += weight
        first += moment
        second += moment * steps[j]
    return mass, first, second


@_part(*_ANY_ORDER)
def _distances(
    weights: np.ndarray,
    start: int,
    stop: int,
    place: int,
    edges: np.ndarray,
    masses: np.ndarray,
    steps: np.ndarray,
) -> tuple[float, float, float]:
    """Mass, and sums of distance and of its square, over ``weights[start:stop]``; ``masses`` by bins."""
    total, first, second = 0.0, 0.0, 0.0
    for b in range(len(edges) - 1):
        near, far = edges[b], edges[b + 1]
        masses[b] = 0.0
        for side in range(2):
            if side == 0:  # distances near, ..., far - 1 before the own place, and then after it
                at, end, towards = max(start, place - far + 1), min(stop, place - near + 1), -1.0
            else:
                at, end, towards = max(start, place + max(near, 1)), min(stop, place + far), 1.0
            while at < end:
                until = min(end, at + len(steps))
                mass, moment, square = _moments(weights[at:until], steps)
                distance = towards * (at - place)
                masses[b] += mass
                first += distance * mass + towards * moment
                second += distance * (distance * mass + 2.0 * towards * moment) + square
                at = until
        total += masses[b]
    return total, first, second


@_part(*_ANY_ORDER)
def _give(
    in_bin: np.ndarray, first_key: int, key_bins: np.ndarray, received: np.ndarray, pooled: np.ndarray
) -> None:
    """Moves what rows of one bin give to the sums of keys and of bins of keys."""
    for j in range(len(in_bin)):
        received[first_key + j] += in_bin[j]
    for b in range(len(key_bins) - 1):
        start, stop = max(0, key_bins[b] - first_key), min(len(in_bin), key_bins[b + 1] - first_key)
        if start < stop:
            pooled[b] += in_bin[start:stop].sum()
    in_bin[:] = np.float32(0)


@_kept
def read_rows(
    scores: np.ndarray,
    sinks: np.ndarray,
    counts: np.ndarray,
    histogram: np.ndarray,
    received: np.ndarray,
    pooled: np.ndarray,
    table: np.ndarray,
    done: int,
    places: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    bins: np.ndarray,
    edges: np.ndarray,
    key_bins: np.ndarray,
    first_key: int,
    keep_weights: bool,
) -> None:
    """Reads ``scores[matrix, row]``, whose column 0 is key ``first_key``, at keys ``starts[row]:stops[row]``.

    ``places[row]`` is a row's own place among the keys. ``table[:, matrix, done + row]`` becomes entropy,
    largest weight, largest score, normalizer, the weights on the own place, the one before, the one after and
    key 0, mean and spread of distances. Each row, times its count, is added to ``histogram[matrix]`` by
    distance, to ``received[matrix]``, and to ``pooled[matrix, bins[row]]`` by bins of keys. With
    ``keep_weights`` the weights replace the scores. ``sinks`` may have no rows.
    """
    matrices, rows, columns = scores.shape
    weights, in_bin = np.empty(columns, np.float32), np.zeros(columns, np.float32)
    powers, steps = np.empty(_BLOCK, np.float32), np.arange(_BLOCK).astype(np.float64)
    bits, bits_of_scores = powers.view(np.int32), scores.view(np.int32)
    masses = np.empty(len(edges) - 1)
    for matrix in range(matrices):
        for row in range(rows):
            if row > 0 and bins[row] != bins[row - 1]:
                _give(in_bin, first_key, key_bins, received[matrix], pooled[matrix, bins[row - 1]])
            found, place = table[:, matrix, done + row], places[row] - first_key
            start = max(0, starts[row] - first_key)
            stop = max(start, min(columns, stops[row] - first_key))
            largest = _LOWEST
            if start < stop:
                bits[0] = _largest(bits_of_scores[matrix, row, start:stop])
                largest = powers[0]
            if largest <= _LOWEST:
                found[:] = 0.0
                found[2] = -np.inf
                found[3] = sinks[matrix, row] if sinks.shape[1] else -np.inf
                if keep_weights:
                    scores[matrix, row] = np.float32(0)
                continue
            s, w = scores[matrix, row, start:stop], weights[start:stop]
            total, apart = np.float64(0), np.float64(0)
            for at in range(0, len(s), _BLOCK):
                until = min(len(s), at + _BLOCK)
                _powers(s[at:until], largest, w[at:until], powers)
                some, some_apart = _scaled(s[at:until], largest, w[at:until], powers, bits)
                total += some
                apart += some_apart
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
            given = in_bin[start:stop]
            for j in range(len(w)):
                given[j] += w[j] * counted
            seen, first, second = _distances(weights, start, stop, place, edges, masses, steps)
            for b in range(len(masses)):
                histogram[matrix, b] += masses[b] * counted
            mean, square = first / seen, second / seen  # not the rounded total: they cancel
            if mass == 0:  # a sink far above every score
                mean, square = np.float64(0), np.float64(0)
            found[0], found[1], found[2], found[3] = entropy, share, largest, normalizer
            for beside in range(3):
                at_key = place + (0, -1, 1)[beside]
                found[4 + beside] = weights[at_key] * share if start <= at_key < stop else np.float32(0)
            found[7] = weights[0] * share if first_key == 0 and start == 0 else np.float32(0)
            found[8], found[9] = mean, np.sqrt(max(0.0, square - mean * mean))
            if keep_weights:
                for j in range(len(w)):
                    s[j] = w[j] * share
                scores[matrix, row, :start] = np.float32(0)
                scores[matrix, row, stop:] = np.float32(0)
        _give(in_bin, first_key, key_bins, received[matrix], pooled[matrix, bins[rows - 1]])
