"""The formulas, in NumPy and float64, one function each: the specification the fast code is tested against.

Written to be read from top to bottom. Rows are words, columns are dimensions; nothing is batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def softmax(scores: ArrayLike) -> Array:
    """Turn each row of scores into weights that add up to 1: ``exp(s_j) / sum_k exp(s_k)``.

    Subtracting the largest score first changes nothing and keeps exp from overflowing. A score of minus
    infinity gives a weight of 0; a row of nothing else gives zeros. One of plus infinity takes all.

    >>> softmax([[0.0, 0.0], [1000.0, 0.0]])
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    scores = np.minimum(np.asarray(scores, dtype=np.float64), np.finfo(np.float64).max)
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest))
    total = exponentials.sum(axis=-1, keepdims=True)
    weights: Array = exponentials / np.where(total == 0.0, 1.0, total)
    return weights


def attention_weights(
    q: ArrayLike,
    k: ArrayLike,
    *,
    visible: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
    scale: float | None = None,
    softcap: float | None = None,
    sink: float = -np.inf,
) -> Array:
    """How much each query attends to each key: ``softmax(cap(q k^T / sqrt(d)) + bias)`` over what is visible.

    ``cap(s) = softcap * tanh(s / softcap)`` keeps scores between minus and plus ``softcap``: Gemma Team 2024,
    arXiv 2408.00118, section 2. A ``sink`` is a score that takes its share and belongs to no key.

    >>> attention_weights([[0.0], [0.0]], [[1.0], [2.0]], visible=[[True, False], [True, True]])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    q, k = np.asarray(q, dtype=np.float64), np.asarray(k, dtype=np.float64)
    scores = q @ k.T * (1.0 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
    scores = scores + np.asarray(bias)
    scores = scores if visible is None else np.where(visible, scores, -np.inf)
    return softmax(np.column_stack([scores, np.full(len(scores), sink)]))[:, :-1]


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    visible: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
    scale: float | None = None,
    softcap: float | None = None,
    sink: float = -np.inf,
) -> Array:
    """Each query's weighted average of the values. Vaswani et al. 2017, arXiv 1706.03762, eq. (1).

    >>> attention([[0.0]], [[1.0], [2.0]], [[10.0], [20.0]])
    array([[15.]])
    """
    weights = attention_weights(q, k, visible=visible, bias=bias, scale=scale, softcap=softcap, sink=sink)
    return weights @ np.asarray(v, dtype=np.float64)


def multi_head(x: ArrayLike, heads: int) -> Array:
    """Heads without projections: each attends within its own slice of the dimensions.

    >>> multi_head(np.random.default_rng(0).random((5, 8)), heads=4).shape
    (5, 8)
    """
    x = np.asarray(x, dtype=np.float64)
    _require(x.shape[-1] % heads == 0, f"{x.shape[-1]} dimensions do not split into {heads} heads")
    return np.concatenate([attention(part, part, part) for part in np.split(x, heads, axis=-1)], axis=-1)


def multi_head_attention(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    *,
    heads: int,
    kv_heads: int | None = None,
    memory: ArrayLike | None = None,
    visible: ArrayLike | None = None,
    bias: Sequence[ArrayLike] | None = None,
    biases: Sequence[ArrayLike] = (0.0, 0.0, 0.0, 0.0),
) -> Array:
    """Project the whole embedding, split into heads, attend in each, concatenate, mix.

    The weights have a row for each output dimension: ``q = x w_q^T``. Each head sees a learned mixture of
    all dimensions of ``x``, not a slice of them. Query heads ``g*r .. g*r + r - 1`` read key/value head
    ``g``. ``bias`` holds one matrix of additions to the scores for each head, ``biases`` what the
    four projections add. Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2.

    >>> x, w = np.eye(4), np.eye(4)
    >>> bool(np.allclose(multi_head_attention(x, w, w, w, w, heads=2), multi_head(x, heads=2)))
    True
    """
    x = np.asarray(x, dtype=np.float64)
    memory = x if memory is None else np.asarray(memory, dtype=np.float64)
    kv_heads = heads if kv_heads is None else kv_heads
    _require(heads % kv_heads == 0, f"{heads} query heads do not share {kv_heads} key/value heads evenly")
    project = [np.asarray(w, dtype=np.float64).T for w in (w_q, w_k, w_v, w_o)]
    add = [np.asarray(b, dtype=np.float64) for b in biases]
    q = np.split(x @ project[0] + add[0], heads, axis=-1)
    k = np.split(memory @ project[1] + add[1], kv_heads, axis=-1)
    v = np.split(memory @ project[2] + add[2], kv_heads, axis=-1)
    outputs = []
    for head in range(heads):
        group = head // (heads // kv_heads)
        added = 0.0 if bias is None else bias[head]
        outputs.append(attention(q[head], k[group], v[group], visible=visible, bias=added))
    return np.concatenate(outputs, axis=-1) @ project[3] + add[3]


def rms_norm(x: ArrayLike, weight: ArrayLike = 1.0, eps: float = 1e-6) -> Array:
    """Each row divided by its root mean square: ``x / sqrt(mean(x^2) + eps) * weight``.

    Zhang and Sennrich 2019, arXiv 1910.07467, eq. (4).

    >>> rms_norm([[3.0, 4.0]], eps=0.0).round(4)
    array([[0.8485, 1.1314]])
    """
    x = np.asarray(x, dtype=np.float64)
    normed: Array = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * np.asarray(weight)
    return normed


def sigmoid_gate(x: ArrayLike, weight: ArrayLike, add: ArrayLike = 0.0) -> Array:
    """How far each gate is open for each word: ``1 / (1 + exp(-(x w^T + b)))``.

    One gate for each head, or for each of its channels, multiplies what the head gives before the heads are
    mixed. Qiu et al. 2025, arXiv 2505.06708.

    >>> sigmoid_gate([[0.0]], [[1.0]])
    array([[0.5]])
    """
    logits = np.asarray(x, dtype=np.float64) @ np.asarray(weight, dtype=np.float64).T + np.asarray(add)
    gates: Array = 1.0 / (1.0 + np.exp(-logits))
    return gates


def positional_encoding(length: int, dim: int, base: float = 10000.0) -> Array:
    """Sine and cosine waves: column 2i is ``sin(p / base^(2i / dim))``, column 2i + 1 its cosine.

    An odd ``dim`` ends with a sine. Vaswani et al. 2017, arXiv 1706.03762, section 3.5.

    >>> positional_encoding(2, 4).round(5)
    array([[0.     , 1.     , 0.     , 1.     ],
           [0.84147, 0.5403 , 0.01   , 0.99995]])
    """
    position = np.arange(length)[:, None]
    column = np.arange(dim)
    angle = position / base ** (2 * (column // 2) / dim)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


def rotary(
    x: ArrayLike,
    positions: ArrayLike,
    base: float = 10000.0,
    pairs: Literal["halves", "neighbours"] = "neighbours",
) -> Array:
    """Turn pair i of each row by the angle ``position / base^(2i / dim)``.

    Pair i is dimensions 2i and 2i + 1 ("neighbours") or i and i + dim / 2 ("halves"). Su et al. 2021, arXiv
    2104.09864, eq. (34).

    >>> rotary([[1.0, 0.0]], [np.pi / 2]).round(12)
    array([[0., 1.]])
    """
    x = np.asarray(x, dtype=np.float64)
    dim = x.shape[-1]
    _require(dim % 2 == 0, f"{dim} dimensions do not split into pairs")
    pair = np.arange(dim // 2)
    angle = np.asarray(positions, dtype=np.float64)[:, None] / base ** (2 * pair / dim)
    first, second = (2 * pair, 2 * pair + 1) if pairs == "neighbours" else (pair, pair + dim // 2)
    turned = np.empty_like(x)
    turned[:, first] = x[:, first] * np.cos(angle) - x[:, second] * np.sin(angle)
    turned[:, second] = x[:, first] * np.sin(angle) + x[:, second] * np.cos(angle)
    return turned


def alibi_slopes(heads: int) -> Array:
    """``2^(-8h / heads)`` for h = 1 .. heads when heads is a power of two.

    Otherwise the slopes of the next lower power of two, then every second slope of twice that number. Press,
    Smith and Lewis 2021, arXiv 2108.12409, section 3, and its authors' code.

    >>> alibi_slopes(3)
    array([0.0625    , 0.00390625, 0.25      ])
    """
    power = 1
    while 2 * power <= heads:
        power *= 2
    whole = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    finer = 2.0 ** (-8.0 * np.arange(1, 2 * power + 1) / (2 * power))
    return np.concatenate([whole, finer[::2][: heads - power]])


def alibi(heads: int, query_positions: ArrayLike, key_positions: ArrayLike) -> Array:
    """What each head adds to its scores: ``-slope * |query position - key position|``.

    >>> alibi(1, [2], [0, 1, 2])
    array([[[-0.0078125 , -0.00390625, -0.        ]]])
    """
    distance = np.abs(np.asarray(query_positions)[:, None] - np.asarray(key_positions)[None, :])
    bias: Array = -alibi_slopes(heads)[:, None, None] * distance
    return bias


def _require(fact: bool, text: str) -> None:
    if not fact:
        raise ValueError(text)
