"""Encodings that read content, from their papers, in plain loops over plain numbers: scores of one head.

A query is a row, a key is a column; ``at_q`` and ``at_k`` are their positions. Nothing here imports torch.
"""

import math

from tests.oracle import dot, projected, softmax


def shaw_row(m, n, behind, before):
    """Shaw et al. 2018, section 3.2: the clipped distance from the query to the key, counted from 0."""
    return max(-behind, min(before, n - m)) + behind


def shaw_scores(q, k, at_q, at_k, table, behind, before):
    """Eq. (5): the key and its row of the table are added before the product."""
    scale = math.sqrt(len(q[0]))
    scores = []
    for query, m in zip(q, at_q, strict=True):
        keys = [
            [a + b for a, b in zip(key, table[shaw_row(m, n, behind, before)], strict=True)]
            for key, n in zip(k, at_k, strict=True)
        ]
        scores.append([dot(query, key) / scale for key in keys])
    return scores


def shaw_output(weights, v, at_q, at_k, table, behind, before):
    """Eq. (3): the value and its row of the table are added before they are averaged."""
    rows = []
    for of_query, m in zip(weights, at_q, strict=True):
        values = [
            [a + b for a, b in zip(value, table[shaw_row(m, n, behind, before)], strict=True)]
            for value, n in zip(v, at_k, strict=True)
        ]
        rows.append(
            [
                math.fsum(w * value[c] for w, value in zip(of_query, values, strict=True))
                for c in range(len(v[0]))
            ]
        )
    return rows


def sines_then_cosines(p, dim, base=10000.0):
    angles = [p / math.pow(base, i / dim) for i in range(0, dim, 2)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles][: dim // 2]


def transformer_xl_scores(q, k, at_q, at_k, projection, u, v, limit=None, base=10000.0):
    """Dai et al. 2019, section 3.3: the four terms (a) to (d), each over the square root of the width."""
    scores = []
    for query, m in zip(q, at_q, strict=True):
        row = []
        for key, n in zip(k, at_k, strict=True):
            distance = m - n if limit is None else max(-limit, min(limit, m - n))
            seen = projected([sines_then_cosines(distance, len(projection[0]), base)], projection)[0]
            row.append(
                (dot(query, key) + dot(query, seen) + dot(u, key) + dot(v, seen)) / math.sqrt(len(query))
            )
        scores.append(row)
    return scores


def deberta_bucket(distance, buckets, furthest):
    """Version 2: whole distances up to the middle, then steps of a constant ratio, climbed one by one."""
    middle, size = buckets // 2, abs(distance)
    if size <= middle:
        return distance
    ratio = ((furthest - 1) / middle) ** (1 / (middle - 1))
    step, reached = 0, float(middle)
    while size > reached * (1 + 1e-12):
        step, reached = step + 1, reached * ratio
    return int(math.copysign(middle + step, distance))


def deberta_row(distance, span):
    """He et al. 2020, eq. (3)."""
    return 0 if distance <= -span else 2 * span - 1 if distance >= span else distance + span


def deberta_scores(
    q, k, at_q, at_k, rows_of_keys, rows_of_queries, *, buckets=None, furthest=None, printed=False
):
    """He et al. 2020, eq. (4), over the square root of three times the width."""
    span = len(rows_of_keys) // 2

    def row(m, n):
        return deberta_row(m - n if buckets is None else deberta_bucket(m - n, buckets, furthest), span)

    return [
        [
            (
                dot(query, key)
                + dot(query, rows_of_keys[row(m, n)])
                + dot(key, rows_of_queries[row(n, m) if printed else row(m, n)])
            )
            / math.sqrt(3 * len(query))
            for key, n in zip(k, at_k, strict=True)
        ]
        for query, m in zip(q, at_q, strict=True)
    ]


def between(i, j, at_q, at_k, visible):
    """The keys that query i sees from key j up to itself; of keys at one position the later is nearer."""
    return [
        other
        for other in range(len(at_k))
        if visible[i][other] and at_k[other] <= at_q[i] and (at_k[other], other) >= (at_k[j], j)
    ]


def cope_scores(q, k, at_q, at_k, table, visible):
    """Golovneva et al. 2024, section 4: a gate for each key in between; a line between two rows."""
    scale, last = math.sqrt(len(q[0])), len(table) - 1
    scores = []
    for i, query in enumerate(q):
        row = []
        for j, key in enumerate(k):
            gates = [
                1 / (1 + math.exp(-dot(query, k[other]) / scale))
                for other in between(i, j, at_q, at_k, visible)
            ]
            p = min(math.fsum(gates), last)
            below, above = math.floor(p), math.ceil(p)
            at_below, at_above = dot(query, table[below]), dot(query, table[above])
            row.append(dot(query, key) / scale + (1 - (p - below)) * at_below + (p - below) * at_above)
        scores.append(row)
    return scores


def forget_scores(q, k, at_q, at_k, gates, visible):
    """Lin et al. 2025, section 3: the product of the gates after the key up to the query, as a logarithm."""
    scale = math.sqrt(len(q[0]))
    scores = []
    for i, query in enumerate(q):
        row = []
        for j, key in enumerate(k):
            kept = math.prod(gates[other] for other in between(i, j, at_q, at_k, visible) if other != j)
            row.append(dot(query, key) / scale + math.log(kept))
        scores.append(row)
    return scores


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def attended(scores, v, visible):
    """Softmax over what is visible; and what it averages."""
    hidden = [
        [s if sees else -math.inf for s, sees in zip(*pair, strict=True)]
        for pair in zip(scores, visible, strict=True)
    ]
    weights = [softmax(row) for row in hidden]
    output = [
        [math.fsum(w * value[c] for w, value in zip(row, v, strict=True)) for c in range(len(v[0]))]
        for row in weights
    ]
    return weights, output
