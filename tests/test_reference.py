"""`reference.py`, the specification, against the oracle's plain loops and against published numbers."""

import math

import numpy as np
import pytest

from headwise import reference
from tests import oracle

# Float64 keeps 16 digits. Sums here have at most 40 terms of size about 1, so each is right to about 1e-14.
EXACT = 1e-12


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def close(actual, expected):
    np.testing.assert_allclose(actual, np.array(expected), rtol=0, atol=EXACT)


def test_every_public_function_is_tested_here():
    public = {
        name
        for name, value in vars(reference).items()
        if callable(value) and value.__module__ == reference.__name__
    }
    assert {name for name in public if not name.startswith("_")} == {
        "softmax", "attention", "attention_weights", "multi_head", "multi_head_attention",
        "rms_norm", "sigmoid_gate", "positional_encoding", "rotary", "alibi_slopes", "alibi",
    }  # fmt: skip


@pytest.mark.parametrize(
    "row", [[0.0], [1.0, 2.0, 3.0], [-1e300, 1e300], [800.0, 799.0], [-math.inf, 1.0, 2.0]]
)
def test_softmax(row):
    close(reference.softmax(row), oracle.softmax(row))


def test_softmax_of_nothing_but_minus_infinity_is_zero():
    assert reference.softmax([[-math.inf, -math.inf], [0.0, -math.inf]]).tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert reference.softmax(np.zeros((2, 0))).shape == (2, 0)


def hidden(queries, keys):
    """Nothing, causal, and a query that sees nothing at all."""
    causal = oracle.visible(queries, keys, oracle.sees_causal)
    return [None, causal, [[False] * keys, *causal[1:]]]


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 2), (1, 1)])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention(queries, keys, scale):
    q, k, v, bias = (
        draw(queries, 3),
        draw(keys, 3, seed=1),
        draw(keys, 2, seed=2),
        draw(queries, keys, seed=3),
    )
    for visible in hidden(queries, keys):
        how = {"visible": visible, "bias": bias, "scale": scale}
        lists = {"visible": visible, "bias": bias.tolist(), "scale": scale}
        close(
            reference.attention_weights(q, k, **how),
            oracle.attention_weights(q.tolist(), k.tolist(), **lists),
        )
        close(
            reference.attention(q, k, v, **how), oracle.attention(q.tolist(), k.tolist(), v.tolist(), **lists)
        )


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_multi_head_by_slices(heads):
    x = draw(5, 8)
    assert reference.multi_head(x, heads).shape == (5, 8)
    close(reference.multi_head(x, heads), oracle.multi_head_by_slices(x.tolist(), heads))


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 4), (4, 2), (4, 1), (6, 3)])
@pytest.mark.parametrize("cross", [False, True])
def test_multi_head_attention(heads, kv_heads, cross):
    width, model_dim, memory_dim = 2, 5, 3 if cross else 5
    x = draw(4, model_dim)
    memory = draw(6, memory_dim, seed=1) if cross else x
    shapes = [
        (heads * width, model_dim),
        (kv_heads * width, memory_dim),
        (kv_heads * width, memory_dim),
        (model_dim, heads * width),
    ]
    weights = [draw(*shape, seed=2 + i) for i, shape in enumerate(shapes)]
    biases = [draw(shape[0], seed=6 + i) for i, shape in enumerate(shapes)]
    bias = draw(heads, 4, len(memory), seed=10)
    visible = oracle.visible(4, len(memory), oracle.sees_causal)
    actual = reference.multi_head_attention(
        x,
        *weights,
        heads=heads,
        kv_heads=kv_heads,
        memory=memory if cross else None,
        visible=visible,
        bias=list(bias),
        biases=biases,
    )
    listed = [w.tolist() for w in weights], [b.tolist() for b in biases]
    expected = oracle.multi_head_attention(
        x.tolist(),
        memory.tolist(),
        listed[0],
        heads,
        kv_heads,
        visible=visible,
        bias=bias.tolist(),
        biases=listed[1],
    )
    close(actual, expected)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 8, 33])
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_positional_encoding(dim, base):
    close(reference.positional_encoding(20, dim, base), [oracle.sinusoidal(p, dim, base) for p in range(20)])


def test_positional_encoding_of_the_paper():
    """sin 1, cos 1, sin 0.01, cos 0.01, from a table of sines."""
    table = reference.positional_encoding(2, 4)
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    close(table[1], [0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653])


@pytest.mark.parametrize("pairs", ["neighbours", "halves"])
@pytest.mark.parametrize("dim", [2, 4, 6, 16])
def test_rotary(pairs, dim):
    x, positions = draw(5, dim), [0, 1, 2, -3, 1000]
    expected = [oracle.rotary(row, p, 500.0, pairs) for row, p in zip(x.tolist(), positions, strict=True)]
    close(reference.rotary(x, positions, 500.0, pairs), expected)


@pytest.mark.parametrize(("pairs", "partner"), [("neighbours", 1), ("halves", 2)])
def test_rotary_turns_the_first_axis_towards_its_partner(pairs, partner):
    turned = reference.rotary([[1.0, 0.0, 0.0, 0.0]], [1], pairs=pairs)[0]
    expected = [0.5403023058681398, 0.0, 0.0, 0.0]
    expected[partner] = 0.8414709848078965
    close(turned, expected)


@pytest.mark.parametrize("softcap", [None, 0.7])
@pytest.mark.parametrize("sink", [-math.inf, -1.0, 5.0])
def test_softcap_and_sink(softcap, sink):
    q, k, v = draw(4, 3), draw(5, 3, seed=1), draw(5, 2, seed=2)
    for visible in hidden(4, 5):
        how = {"visible": visible, "softcap": softcap, "sink": sink}
        close(
            reference.attention(q, k, v, **how), oracle.attention(q.tolist(), k.tolist(), v.tolist(), **how)
        )


def test_rms_norm():
    x, weight = draw(3, 4), draw(4, seed=1)
    close(reference.rms_norm(x, weight), [oracle.rms_norm(row, weight.tolist()) for row in x.tolist()])


def test_sigmoid_gate():
    x, weight, add = draw(3, 4), 20 * draw(2, 4, seed=1), draw(2, seed=2)
    logits = oracle.projected(x.tolist(), weight.tolist(), add.tolist())
    close(reference.sigmoid_gate(x, weight, add), [[oracle.sigmoid(one) for one in row] for row in logits])


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (3, [1 / 16, 1 / 256, 1 / 4]),
        (6, [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]),
        (8, [2.0**-h for h in range(1, 9)]),
        (12, [2.0**-h for h in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]),
    ],
)
def test_alibi_slopes_as_published(heads, slopes):
    close(reference.alibi_slopes(heads), slopes)


@pytest.mark.parametrize("heads", range(1, 41))
def test_alibi_slopes_of_any_number_of_heads(heads):
    close(reference.alibi_slopes(heads), oracle.alibi_slopes(heads))


def test_alibi_is_the_slope_times_the_distance_both_ways():
    queries, keys = [5, 6, 9], [0, 7, 6, 20]
    expected = [oracle.alibi(slope, queries, keys) for slope in oracle.alibi_slopes(6)]
    close(reference.alibi(6, queries, keys), expected)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: reference.multi_head(np.eye(5), heads=2), "5 dimensions do not split into 2 heads"),
        (lambda: reference.rotary(np.eye(3), [0, 1, 2]), "3 dimensions do not split into pairs"),
        (
            lambda: reference.multi_head_attention(np.eye(6), *[np.eye(6)] * 4, heads=3, kv_heads=2),
            "3 query heads do not share 2 key/value heads evenly",
        ),
    ],
)
def test_what_does_not_divide_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
