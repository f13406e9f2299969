"""A cache in chunks of all sizes, around the ends of windows and rings, and for rows of unequal lengths."""

import pytest
import torch

from headwise.check import Vectors, cache
from headwise.check.properties.cache import chunkings
from headwise.core import HeadwiseError
from tests.faults.parts import Layer, PaddedSteps, Steps, vectors


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_growing_cache_passes(dtype):
    layer = Layer(dtype)
    assert cache(lambda x: Steps(layer)(x), lambda: Steps(layer), vectors(dtype)).passed


@pytest.mark.parametrize("length", [1, 2, 5, 11])
@pytest.mark.parametrize("window", [None, 1, 4])
def test_every_chunking_covers_the_sequence(length, window):
    ways = chunkings(length, window)
    assert all(sum(way) == length and min(way) >= 1 for way in ways)
    assert [length] in ways
    assert [1] * length in ways
    if window == 4 and length == 11:
        assert [3, 2, 6] in ways  # the middle chunk crosses the end of the window
        assert all([cut, 11 - cut] in ways for cut in (3, 4, 5))


def faulty(wrong):
    def start():
        total, seen = 0.0, 0

        def step(chunk):
            nonlocal total, seen
            sums = chunk.cumsum(1) + total
            total, seen = sums[:, -1:] + wrong(seen, chunk.shape[1]), seen + chunk.shape[1]
            return sums

        return step

    return start


def summed(x):
    return x.cumsum(1)


def test_the_fewest_chunks_of_the_shortest_length_are_named():
    report = cache(summed, faulty(lambda seen, chunk: 1.0), Vectors(4))
    assert report.failing.endswith("when the sequence comes in chunks of 1 and 1")
    report = cache(summed, faulty(lambda seen, chunk: float(chunk > 1)), Vectors(4))
    assert report.failing.startswith("the output at 2 of 3 changes by")
    assert report.failing.endswith("when the sequence comes in chunks of 2 and 1")


def test_a_fault_at_the_end_of_the_ring():
    start = faulty(lambda seen, chunk: float(seen < 16 < seen + chunk))
    assert cache(summed, start, Vectors(4)).passed
    report = cache(summed, start, Vectors(4), window=16)
    assert report.failing.startswith("the output at 17 of 18 changes by")
    assert report.failing.endswith("when the sequence comes in chunks of 17 and 1")


def test_one_chunk_that_differs():
    report = cache(lambda x: x.cumsum(1) + 1, faulty(lambda seen, chunk: 0.0), Vectors(4))
    assert report.failing.endswith("when the sequence comes in one chunk through the cache")


def test_two_caches_that_share_something():
    total = [0.0]

    def start():
        total[0] = 0.0

        def step(chunk):
            sums = chunk.cumsum(1) + total[0]
            total[0] = sums[:, -1:]
            return sums

        return step

    assert cache(summed, start, Vectors(4)).failing.endswith("with a second sequence in between")


@pytest.mark.parametrize("side", ["left", "right"])
def test_unequal_rows(side):
    layer = Layer(torch.float32)
    report = cache(lambda x: Steps(layer)(x), lambda: PaddedSteps(layer), vectors(torch.float32), rows=side)
    assert report.passed

    class Lost(PaddedSteps):
        def visible(self, queries, keys):
            return Steps.visible(self, queries, keys)

    report = cache(lambda x: Steps(layer)(x), lambda: Lost(layer), vectors(torch.float32), rows=side)
    assert report.failing.startswith(
        f"in a batch of rows of 2, 1, 1, padded {side}, the output at real place"
    )


def test_a_start_that_raises():
    report = cache(summed, lambda: 1 / 0, Vectors(4))
    assert report.verdict == "not checked"
    assert report.failing == "start() raises ZeroDivisionError (division by zero)"


def test_a_window_of_nothing_is_refused():
    with pytest.raises(HeadwiseError, match="window must be a whole number"):
        cache(summed, faulty(lambda seen, chunk: 0.0), Vectors(4), window=0)
