"""The formulas once more, from the papers, in plain loops over plain numbers: what the tests expect.

Nothing here imports NumPy, torch or headwise, so that nothing under test can tell these what to say.
A matrix is a list of rows. A query is a row, a key is a column, and
the queries are the last slots of the keys.
"""

import math

Vector = list[float]
Matrix = list[list[float]]


def softmax(scores: Vector) -> Vector:
    """``exp(s_j) / sum_k exp(s_k)``; a score of minus infinity weighs nothing, and if all do, all weigh 0."""
    largest = max(scores, default=-math.inf)
    if largest == -math.inf:
        return [0.0 for _ in scores]
    exponentials = [math.exp(score - largest) for score in scores]
    total = math.fsum(exponentials)
    return [exponential / total for exponential in exponentials]


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def product(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b, strict=True))
    return [[dot(row, list(column)) for column in columns] for row in a]


def attention_weights(q, k, visible=None, bias=None, scale=None, softcap=None, sink=-math.inf) -> Matrix:
    """Vaswani et al. 2017, eq. (1), one query and one key at a time; a sink is a score without a key."""
    scale = 1.0 / math.sqrt(len(q[0])) if scale is None else scale
    weights = []
    for i, query in enumerate(q):
        scores = []
        for j, key in enumerate(k):
            score = scale * dot(query, key)
            if softcap is not None:
                score = softcap * math.tanh(score / softcap)
            if bias is not None:
                score += bias[i][j]
            if visible is not None and not visible[i][j]:
                score = -math.inf
            scores.append(score)
        weights.append(softmax([*scores, sink])[:-1])
    return weights


def attention(q: Matrix, k: Matrix, v: Matrix, **how) -> Matrix:
    return product(attention_weights(q, k, **how), v)


def columns(x: Matrix, start: int, stop: int) -> Matrix:
    return [row[start:stop] for row in x]


def side_by_side(parts: list[Matrix]) -> Matrix:
    return [[number for row in rows for number in row] for rows in zip(*parts, strict=True)]


def multi_head_by_slices(x: Matrix, heads: int) -> Matrix:
    """No projections: head h attends with dimensions ``h * width .. (h + 1) * width`` of the input."""
    width = len(x[0]) // heads
    slices = [columns(x, head * width, (head + 1) * width) for head in range(heads)]
    return side_by_side([attention(part, part, part) for part in slices])


def projected(x: Matrix, weight: Matrix, add: Vector | None = None) -> Matrix:
    """``x W^T + b``: a weight has one row for each output."""
    add = [0.0] * len(weight) if add is None else add
    return [[dot(row, output) + b for output, b in zip(weight, add, strict=True)] for row in x]


def multi_head_attention(x, memory, weights, heads, kv_heads, *, visible=None, bias=None, biases=None):
    """Vaswani et al. 2017, section 3.2.2; with fewer kv heads, Ainslie et al. 2023, section 2.2."""
    biases = [None] * 4 if biases is None else biases
    q, k, v = (
        projected(source, weight, add)
        for source, weight, add in zip((x, memory, memory), weights[:3], biases[:3], strict=True)
    )
    width = len(q[0]) // heads
    outputs = []
    for head in range(heads):
        serving = head * kv_heads // heads
        outputs.append(
            attention(
                columns(q, head * width, (head + 1) * width),
                columns(k, serving * width, (serving + 1) * width),
                columns(v, serving * width, (serving + 1) * width),
                visible=visible,
                bias=None if bias is None else bias[head],
            )
        )
    return projected(side_by_side(outputs), weights[3], biases[3])


def sinusoidal(position: int, dim: int, base: float = 10000.0) -> Vector:
    """Vaswani et al. 2017, section 3.5: a sine, then a cosine, of each wave in turn."""
    row: Vector = []
    wave = 0
    while len(row) < dim:
        angle = position / math.pow(base, 2 * wave / dim)
        row += [math.sin(angle), math.cos(angle)]
        wave += 1
    return row[:dim]


def rotary(x: Vector, position: float, base: float = 10000.0, pairs: str = "neighbours") -> Vector:
    """Su et al. 2021, eq. (34), as a product of complex numbers: pair i times ``e^(i theta position)``."""
    dim = len(x)
    turned = list(x)
    for i in range(dim // 2):
        a, b = (2 * i, 2 * i + 1) if pairs == "neighbours" else (i, i + dim // 2)
        angle = position * math.pow(base, -2 * i / dim)
        hand = complex(x[a], x[b]) * complex(math.cos(angle), math.sin(angle))
        turned[a], turned[b] = hand.real, hand.imag
    return turned


def alibi_slopes(heads: int) -> Vector:
    """Press et al. 2021, section 3, said by recursion: the ratio 2^(-8/n), or two shorter lists joined."""
    exponent = math.log2(heads)
    if exponent == int(exponent):
        ratio = math.pow(2.0, -8.0 / heads)
        return [math.pow(ratio, head) for head in range(1, heads + 1)]
    lower = 2 ** math.floor(exponent)
    finer = alibi_slopes(2 * lower)
    return alibi_slopes(lower) + [finer[2 * extra] for extra in range(heads - lower)]


def alibi(slope: float, query_positions: Vector, key_positions: Vector) -> Matrix:
    return [[-slope * abs(p - q) for q in key_positions] for p in query_positions]


def visible(queries: int, keys: int, sees) -> list[list[bool]]:
    """A matrix of ``sees(query slot, key slot)``; the last query stands where the last key does."""
    return [[bool(sees(keys - queries + row, j)) for j in range(keys)] for row in range(queries)]


def sees_causal(i: int, j: int) -> bool:
    return not j > i


def sees_window(window: int, ahead: int = 0):
    return lambda i, j: j in range(i - window + 1, i + ahead + 1)


def sees_prefix(length: int):
    return lambda i, j: j in range(length) or j in range(i + 1)


def sees_padding(keep: list[bool]):
    return lambda i, j: keep[j]


def sees_documents(ids: list[int]):
    return lambda i, j: i >= 0 and ids[i] == ids[j]


def sees_both(*rules):
    return lambda i, j: all(rule(i, j) for rule in rules)


def rms_norm(x: Vector, weight: Vector, eps: float = 1e-6) -> Vector:
    """Zhang and Sennrich 2019, eq. (4), one row."""
    root = math.sqrt(math.fsum(number * number for number in x) / len(x) + eps)
    return [number / root * w for number, w in zip(x, weight, strict=True)]


def sigmoid(x: float) -> float:
    return math.exp(x) / (1 + math.exp(x)) if x < 0 else 1 / (1 + math.exp(-x))
