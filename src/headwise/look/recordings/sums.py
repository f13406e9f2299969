"""Sums over query rows that add: chunks, files and processes merge to the same figures in any order."""

from __future__ import annotations

from dataclasses import dataclass, fields
from hashlib import blake2b
from math import nan

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

STATISTICS = (
    "entropy",
    "confidence",
    "distance",
    "spread",
    "self",
    "previous",
    "next",
    "first",
    "special",
)
"""What is averaged over the query rows of each head: entropy in nats; confidence, the largest weight;
distance and spread in tokens; and the weight on the own, the previous, the next, the first and on special
tokens."""

BINS = 64  # of queries and of keys in an overview
DISTANCES = 32  # bins of a histogram that double: 0, 1, 2-3, 4-7 ...


@dataclass
class Sums:
    """What one layer's heads did, as sums in float64. Tokens of padding are in none of them.

    ``rows`` counts the query rows that the sums stand for, ``read`` those they were computed from. Of each
    statistic there are the total over the rows, that of the squares, and the variance of the total that comes
    of reading only a sample, 0 where all rows were read (Cochran 1977, Sampling Techniques, chapter 2).

    ``received`` is what each key got from all rows, by its place in the text, and ``could`` how many rows saw
    it. ``overview`` is the mass from 64 equal parts of the queries to 64 equal parts of the keys.

    >>> Sums.empty(heads=2).mean("entropy")
    tensor([nan, nan], dtype=torch.float64)
    """

    rows: Float[Tensor, "statistics heads"]
    read: Float[Tensor, "statistics heads"]
    total: Float[Tensor, "statistics heads"]
    squares: Float[Tensor, "statistics heads"]
    variance: Float[Tensor, "statistics heads"]
    largest_score: Float[Tensor, " heads"]
    received: Float[Tensor, "heads key"]
    could: Float[Tensor, " key"]
    overview: Float[Tensor, "heads query_bins key_bins"]
    overview_rows: Float[Tensor, " query_bins"]
    distances: Float[Tensor, "heads distances"]

    @classmethod
    def empty(cls, heads: int) -> Sums:
        """The sums over nothing."""

        def zeros(*sizes: int) -> Tensor:
            return torch.zeros(sizes, dtype=torch.float64)

        rows, read, total, squares, variance = (zeros(len(STATISTICS), heads) for _ in range(5))
        return cls(
            rows,
            read,
            total,
            squares,
            variance,
            largest_score=zeros(heads) - torch.inf,
            received=zeros(heads, 0),
            could=zeros(0),
            overview=zeros(heads, BINS, BINS),
            overview_rows=zeros(BINS),
            distances=zeros(heads, DISTANCES),
        )

    @property
    def heads(self) -> int:
        """How many query heads the layer has."""
        return self.total.shape[1]

    def mean(self, statistic: str) -> Float[Tensor, " heads"]:
        """The mean of a statistic over the rows; NaN where no row has it."""
        number = STATISTICS.index(statistic)
        return self.total[number] / self.rows[number].masked_fill(self.rows[number] == 0, nan)

    def standard_error(self, statistic: str) -> Float[Tensor, " heads"]:
        """How far the mean over the read rows may be from that over all rows: 0 where all were read.

        NaN where it cannot be told, as only one row of some text was read.
        """
        number = STATISTICS.index(statistic)
        return self.variance[number].sqrt() / self.rows[number].masked_fill(self.rows[number] == 0, nan)

    def deviation(self, statistic: str) -> Float[Tensor, " heads"]:
        """The standard deviation of a statistic from row to row."""
        number = STATISTICS.index(statistic)
        rows = self.rows[number].masked_fill(self.rows[number] == 0, nan)
        return (self.squares[number] / rows - self.mean(statistic).square()).clamp(min=0.0).sqrt()

    def attention_on(self) -> Float[Tensor, "heads key"]:
        """What each key gets from the average row that sees it, by its place in the text."""
        return self.received / self.could.masked_fill(self.could == 0, nan)

    def picture(self) -> Float[Tensor, "heads query_bins key_bins"]:
        """The mass that the average row of each 64th of the queries gives to each 64th of the keys."""
        return self.overview / self.overview_rows.masked_fill(self.overview_rows == 0, nan)[:, None]

    def by_distance(self) -> Float[Tensor, "heads distances"]:
        """The mass that the average row gives to distances 0, 1, 2-3, 4-7 and so on; NaN without any."""
        rows = self.rows[STATISTICS.index("distance")]
        return self.distances / rows.masked_fill(rows == 0, nan)[:, None]

    def __add__(self, other: Sums) -> Sums:
        added = []
        for field in fields(self):
            first, second = getattr(self, field.name), getattr(other, field.name)
            if field.name == "largest_score":
                added.append(torch.maximum(first, second))
            else:
                length = max(first.shape[-1], second.shape[-1])
                added.append(_padded(first, length) + _padded(second, length))
        return Sums(*added)


def _padded(x: Tensor, length: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, length - x.shape[-1]))


def of_rows(
    values: Float[Tensor, "*statistics batch heads rows"],
    counts: Bool[Tensor, "*statistics batch heads rows"],
    all_rows: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Rows, rows read, total, squares and variance of statistics, for each head over the batch.

    Each sequence is a stratum of ``all_rows`` rows from which those of ``values`` were drawn; rows that do
    not have the statistic are marked in ``counts``. One row of a sample tells no variance: it is NaN then.

    >>> values = torch.tensor([[[1.0, 3.0]]])
    >>> rows, read, total, squares, variance = of_rows(values, torch.ones(1, 1, 2, dtype=torch.bool), 4)
    >>> rows.item(), read.item(), total.item(), squares.item(), variance.item()
    (4.0, 2.0, 8.0, 20.0, 8.0)
    """
    drawn = values.shape[-1]
    times = all_rows / max(1, drawn)
    read = counts.double().sum(-1)
    values = values.double().masked_fill(~counts, 0.0)
    total, squares = values.sum(-1), values.square().sum(-1)
    mean = total / read.clamp(min=1)
    apart = (values - mean[..., None]).masked_fill(~counts, 0.0).square().sum(-1) / (read - 1).clamp(min=1)
    rows = times * read
    variance = rows.square() * (1 - drawn / max(1, all_rows)) * apart / read.clamp(min=1)
    if drawn < all_rows:
        variance = variance.masked_fill(read == 1, nan)
    found = torch.stack([rows, read, times * total, times * squares, variance]).sum(-2)
    return found[0], found[1], found[2], found[3], found[4]


def chosen_rows(all_rows: int, most: int | None, seed: int, text: bytes) -> Int[Tensor, " rows"] | None:
    """Which rows of a text are read, in order; None for all.

    A simple random sample without replacement, drawn for each text by itself: it depends on what the text is,
    its length and the seed, so the parts of a corpus can be read in any order and by any process.

    >>> chosen_rows(10, None, 0, b"a") is None, chosen_rows(10, 3, 0, b"a"), chosen_rows(10, 3, 0, b"b")
    (True, tensor([3, 5, 8]), tensor([1, 3, 9]))
    """
    if most is None or most >= all_rows:
        return None
    digest = blake2b(b"%d %d " % (seed, all_rows) + text, digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") // 2)
    return torch.randperm(all_rows, generator=generator)[:most].sort().values
