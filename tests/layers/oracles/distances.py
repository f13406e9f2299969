"""Encodings by distance and tables once more, in plain loops over plain numbers: what the tests expect.

Nothing here imports NumPy, torch or headwise. A score's place is its query's position and its key's.
"""

import math
from fractions import Fraction


def t5_bucket(key_minus_query, buckets=32, max_distance=128, bidirectional=True):
    """Raffel et al. 2019, section 2.1 and its code: by comparing whole powers, so that nothing is rounded."""
    first, distance = 0, -key_minus_query
    if bidirectional:
        buckets //= 2
        if key_minus_query > 0:
            first, distance = buckets, key_minus_query
    distance = max(distance, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    # floor(ranges * log(distance / exact) / log(max / exact)), the largest k with (d/e)^ranges >= (m/e)^k
    ranges, k = buckets - exact, 0
    while k < ranges - 1:
        if Fraction(distance, exact) ** ranges < Fraction(max_distance, exact) ** (k + 1):
            break
        k += 1
    return first + exact + k


def kerple_log(amplitude, rate, m, n):
    """Chi et al. 2022, 2205.09921, the logarithmic variant."""
    return -amplitude * math.log(1 + rate * abs(m - n))


def kerple_power(amplitude, exponent, m, n):
    """Chi et al. 2022, 2205.09921, the power variant."""
    return -amplitude * math.pow(abs(m - n), exponent)


def fire(m, n, c, threshold, hidden_weight, hidden_bias, out_weight, out_bias):
    """Li et al. 2023: a network of the share of how far back one could look; one number for each head."""
    share = math.log(c * abs(m - n) + 1) / math.log(c * max(threshold, m) + 1)
    hidden = [max(0.0, w * share + b) for w, b in zip(hidden_weight, hidden_bias, strict=True)]
    return [
        sum(w * h for w, h in zip(row, hidden, strict=True)) + b
        for row, b in zip(out_weight, out_bias, strict=True)
    ]


def sandwich(head, heads, m, n, dim, base=10000.0):
    """Chi et al. 2022, 2212.10356: cosines of the distance, over the ratio of the head, 1 .. heads."""
    total = sum(math.cos((m - n) / math.pow(base, 2 * w / dim)) for w in range(dim // 2))
    return total / (8 * head / heads)


def swin_row(query, key, window):
    """Liu et al. 2021, eq. (4): the row of the table, counted by walking through all offsets in order."""
    row = 0
    for by_row in range(1 - window[0], window[0]):
        for by_column in range(1 - window[1], window[1]):
            if (query[0] - key[0], query[1] - key[1]) == (by_row, by_column):
                return row
            row += 1
    raise IndexError


def beit_row(query, key, window):
    """Bao et al. 2021: three rows more, told by a class token at (-1, -1)."""
    offsets = (2 * window[0] - 1) * (2 * window[1] - 1)
    if query[0] < 0:
        return offsets + (2 if key[0] < 0 else 0)
    return offsets + 1 if key[0] < 0 else swin_row(query, key, window)


def log_spaced(offset, side):
    """Liu et al. 2021, 2111.09883, section 3.3, as the authors' code has it."""
    share = 8 * offset / max(side - 1, 1)
    return math.copysign(math.log2(1 + abs(share)) / math.log2(8), share)


def log_cpb(query, key, window, hidden_weight, hidden_bias, out_weight):
    """One number for each head: 16 times the logistic function of a network of two log-spaced offsets."""
    x = [log_spaced(query[axis] - key[axis], window[axis]) for axis in (0, 1)]
    units = zip(hidden_weight, hidden_bias, strict=True)
    hidden = [max(0.0, w[0] * x[0] + w[1] * x[1] + b) for w, b in units]
    sums = (sum(w * h for w, h in zip(row, hidden, strict=True)) for row in out_weight)
    return [16 / (1 + math.exp(-total)) for total in sums]


def sinusoidal(position, dim, base, layout, slowest):
    """All four published forms: which frequency, sine or cosine stands in each dimension."""
    if dim == 1:
        return [math.sin(position)]
    pairs, row = dim // 2, []
    for d in range(dim):
        if layout == "neighbours":
            hand, wave = divmod(d, 2)
        else:
            sines = dim - pairs if slowest == "before base" else pairs
            hand, wave = (d, 0) if d < sines else (d - sines, 1)
        if slowest == "at base" and hand >= pairs:
            row.append(0.0)
            continue
        if slowest == "before base" or pairs < 2:
            frequency = math.pow(base, -2 * hand / dim)
        else:
            frequency = math.pow(base, -hand / (pairs - 1))
        row.append((math.sin, math.cos)[wave](position * frequency))
    return row


def between(rows, length):
    """A line of rows at another length: row j is at j (old - 1) / (new - 1), linear between neighbours."""
    drawn = []
    for j in range(length):
        at = Fraction(j * (len(rows) - 1), max(length - 1, 1))
        low = min(math.floor(at), len(rows) - 1)
        high, share = min(low + 1, len(rows) - 1), float(at - low)
        drawn.append([(1 - share) * a + share * b for a, b in zip(rows[low], rows[high], strict=True)])
    return drawn


def _cubic(t, a=-0.75):
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def _four(at, size):
    """(index, weight) of the four cells around a place, the outermost repeated beyond the edge."""
    near = math.floor(at)
    return [(min(max(near + k, 0), size - 1), _cubic(at - near - k)) for k in (-1, 0, 1, 2)]


def bicubic(cells, grid, new_grid):
    """A grid of numbers at another size: Keys' cubic convolution about the centre of each cell."""
    drawn = []
    for r in range(new_grid[0]):
        for c in range(new_grid[1]):
            at_row = (r + 0.5) * grid[0] / new_grid[0] - 0.5
            at_column = (c + 0.5) * grid[1] / new_grid[1] - 0.5
            drawn.append(
                sum(
                    wr * wc * cells[i * grid[1] + j]
                    for i, wr in _four(at_row, grid[0])
                    for j, wc in _four(at_column, grid[1])
                )
            )
    return drawn
