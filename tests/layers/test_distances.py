"""Encodings that add to scores by distance, against their formulas in plain loops.

Known faults of other libraries, and the test here that would have caught each:

35  T5 buckets: direction inverted           test_t5_bucket_starts_as_published
36  bias ignores the offset of the keys      test_the_last_queries_get_the_last_rows
38  ALiBi: a shorter call reads a longer's   test_claims.test_nothing_is_kept_between_calls
39  ALiBi: sign                              test_a_nearer_key_gets_more
40  slopes padded on the wrong axis          test_heads_are_one_for_one (a head without numbers is refused)
41  slopes of head counts not powers of two  test_alibi_slopes_as_published
42  ALiBi: exponent off by one head          test_alibi_slopes_as_published
43  ALiBi while decoding                     test_the_last_queries_get_the_last_rows
L21 slopes 2^(-8 h / heads) for every count  test_alibi_slopes_as_published
L26 FIRE divides by the smaller              test_fire_reads_far_queries_on_their_own_scale
L27 garbage above the diagonal               test_every_entry_is_its_formula (keys after the query, more keys)
22  rows and columns swapped                 test_windows.test_each_offset_has_its_row (not square)
"""

import math

import pytest
import torch

from headwise.core import Causal, attention
from headwise.layers import ALiBi, Fire, KerpleLog, KerplePower, MultiHeadAttention, Sandwich, T5Bias
from tests import oracle
from tests.layers.oracles import distances as expected

QUERIES, KEYS = [5, 6, 300, 100_003], [0, 7, 6, 150, 100_004, 99_000]
HEADS = 3


def bias(encoding, queries=QUERIES, keys=KEYS, dtype=torch.float64):
    q = torch.zeros(1, encoding.heads, len(queries), 2, dtype=dtype)
    k = torch.zeros(1, encoding.heads, len(keys), 2, dtype=dtype)
    return encoding.bias(q, k, torch.tensor(queries), torch.tensor(keys), None)


def each_pair(formula, heads=HEADS):
    table = [[[formula(head, m, n) for n in KEYS] for m in QUERIES] for head in range(heads)]
    return torch.tensor(table, dtype=torch.float64)[None]


def t5(head, m, n, encoding, **how):
    return encoding.table[expected.t5_bucket(n - m, **how), head].item()


def fire(head, m, n, encoding):
    c, threshold = encoding.log_c.exp().item(), encoding.log_threshold.exp().item()
    weights = (encoding.hidden.weight[:, 0], encoding.hidden.bias, encoding.out.weight, encoding.out.bias)
    return expected.fire(m, n, c, threshold, *(weight.tolist() for weight in weights))[head]


# an encoding of three heads, and its number for one head, query position and key position
FORMULAS = {
    "alibi": (ALiBi, lambda head, m, n, e: -oracle.alibi_slopes(HEADS)[head] * abs(m - n)),
    "t5": (T5Bias, t5),
    "t5, one-sided": (
        lambda heads: T5Bias(heads, bidirectional=False, buckets=20, max_distance=77),
        lambda *args: t5(*args, bidirectional=False, buckets=20, max_distance=77),
    ),
    "kerple, log": (
        KerpleLog,
        lambda head, m, n, e: expected.kerple_log(
            e.log_amplitude[head].exp().item(), e.log_rate[head].exp().item(), m, n
        ),
    ),
    "kerple, power": (
        KerplePower,
        lambda head, m, n, e: expected.kerple_power(
            e.log_amplitude[head].exp().item(), 2 / (1 + math.exp(-e.logit_exponent[head].item())), m, n
        ),
    ),
    "fire": (Fire, fire),
    "sandwich": (
        lambda heads: Sandwich(heads, dim=6, base=500.0),
        lambda head, m, n, e: expected.sandwich(head + 1, HEADS, m, n, dim=6, base=500.0),
    ),
}
every_formula = pytest.mark.parametrize("name", FORMULAS)


@every_formula
def test_every_entry_is_its_formula(name):
    """Before and after the query, near and far; 1e-10 is a thousand roundings of an angle near 100,000."""
    build, formula = FORMULAS[name]
    encoding = build(HEADS).double()
    table = each_pair(lambda head, m, n: formula(head, m, n, encoding))
    torch.testing.assert_close(bias(encoding), table, rtol=1e-12, atol=1e-10)


@every_formula
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_half_precision_rounds_no_distance(name, dtype):
    """The bias is float32 whatever the queries are, and as near to the exact one as float32 comes.

    A distance, a logarithm, a product: a few roundings of 2^-24 of the largest term; a power multiplies the
    relative error of its exponent by the logarithm of the distance, 12; Fire and Sandwich add 32 and 3 terms.
    """
    build, formula = FORMULAS[name]
    encoding = build(HEADS)
    table = each_pair(lambda head, m, n: formula(head, m, n, encoding))
    made = bias(encoding, dtype=dtype)
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.double(), table, rtol=40 * 2**-24, atol=40 * 2**-24)


@every_formula
def test_the_last_queries_get_the_last_rows(name):
    """One query after a past gets the row it has among all: distances are between positions, not slots."""
    encoding = FORMULAS[name][0](HEADS).double()
    at = list(range(40))
    whole = bias(encoding, at, at)
    torch.testing.assert_close(bias(encoding, at[-1:], at), whole[:, :, -1:], rtol=0.0, atol=1e-12)
    torch.testing.assert_close(bias(encoding, at[-3:], at), whole[:, :, -3:], rtol=0.0, atol=1e-12)


def test_a_nearer_key_gets_more():
    for encoding in (ALiBi(HEADS), KerpleLog(HEADS), KerplePower(HEADS)):
        added = bias(encoding, [50], list(range(51)))[0, :, 0]
        assert (added.diff(dim=-1) > 0).all()
        assert not added[:, -1].any()


@every_formula
def test_heads_are_one_for_one(name):
    encoding = FORMULAS[name][0](HEADS)
    layer = MultiHeadAttention(8, 2, position=encoding)
    with pytest.raises(ValueError, match="heads must be 2, the number of query heads, got 3"):
        layer(torch.zeros(1, 4, 8))


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (3, [4, 8, 2]),
        (6, [2, 4, 6, 8, 1, 3]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes_as_published(heads, exponents):
    slopes = ALiBi(heads).slopes(dtype=torch.float64)
    torch.testing.assert_close(slopes, torch.tensor([2.0**-e for e in exponents], dtype=torch.float64))


def test_t5_bucket_starts_as_published():
    one_sided = T5Bias(1, bidirectional=False).bucket(torch.arange(200)).tolist()
    starts = [one_sided.index(bucket) for bucket in range(16, 32)]
    assert starts == [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert not T5Bias(1, bidirectional=False).bucket(-torch.arange(200)).any()
    before = T5Bias(1).bucket(torch.arange(200)).tolist()
    assert [before.index(bucket) for bucket in range(8, 16)] == [8, 12, 16, 23, 32, 46, 64, 91]
    after = T5Bias(1).bucket(-torch.arange(200)).tolist()
    assert [bucket - 16 for bucket in after[1:]] == before[1:]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (4, 3), (7, 9), (64, 20), (10, 1000), (32, 800)])
def test_t5_buckets_of_any_size(buckets, most, bidirectional):
    if not bidirectional and most <= buckets // 2:
        with pytest.raises(ValueError, match="max_distance must be more than"):
            T5Bias(1, buckets=buckets, max_distance=most, bidirectional=False)
        return
    encoding = T5Bias(1, buckets=buckets, max_distance=most, bidirectional=bidirectional)
    apart = range(-most - 5, most + 6)
    rows = [expected.t5_bucket(-d, buckets, most, bidirectional) for d in apart]
    assert encoding.bucket(torch.tensor(apart)).tolist() == rows
    assert max(rows) < buckets


def test_layers_share_a_table_by_sharing_the_encoding():
    shared = T5Bias(2)
    layers = torch.nn.ModuleList(MultiHeadAttention(8, 2, position=shared) for _ in range(3))
    assert sum(p is shared.table for p in layers.parameters()) == 1
    x = torch.randn(1, 5, 8)
    for layer in layers:
        x = layer(x)
    x.sum().backward()
    assert shared.table.grad[1:5].abs().min() > 0


def test_kerple_stays_a_penalty_wherever_training_goes():
    for encoding in (KerpleLog(2), KerplePower(2)):
        for extreme in (-80.0, 80.0):
            for parameter in encoding.parameters():
                torch.nn.init.constant_(parameter, extreme)
            torch.nn.init.constant_(encoding.log_amplitude, 0.0)
            added = bias(encoding, [9], list(range(10)), torch.float32)
            assert added.isfinite().all()
            assert (added <= 0).all()


def test_fire_reads_far_queries_on_their_own_scale():
    """Alike at any shift up to the threshold, and not beyond: the claim "relative" has to be False."""
    encoding = Fire(2, threshold=20.0).double()
    near = bias(encoding, [6, 10], [0, 3, 6])
    torch.testing.assert_close(bias(encoding, [16, 20], [10, 13, 16]), near, rtol=0.0, atol=1e-14)
    assert (bias(encoding, [26, 30], [20, 23, 26]) - near).abs().max() > 1e-3
    # the farthest key is at share 1 for every query past the threshold
    ends = torch.cat([bias(encoding, [m], [0]) for m in (21, 50, 5000)])
    torch.testing.assert_close(ends, ends[:1].expand_as(ends), rtol=0.0, atol=1e-12)
    assert bias(encoding, [0], [0]).isfinite().all()


# how a call is served: few queries kept for the backward pass, blocks computed anew, and dense weights
PATHS = {"kept": {}, "computed anew": {}, "softcap": {"softcap": 5.0}}
LEARNED = {name: build for name, (build, _) in FORMULAS.items() if name not in ("alibi", "sandwich")}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", LEARNED)
def test_gradients_reach_every_parameter_on_every_path(monkeypatch, name, path):
    """To rounding of the dense sum: those of attention by its definition, one matrix of scores."""
    from headwise.core import blocks

    encoding = LEARNED[name](HEADS).double()
    q, k, v = (torch.randn(2, HEADS, 40, 4, dtype=torch.float64) for _ in range(3))
    at, weights = torch.arange(40), torch.randn(2, HEADS, 40, 4, dtype=torch.float64)

    def of_rows(q, k, rows, columns, visible):
        return encoding.bias(q, k, at[rows], at[columns], visible)

    scores = q @ k.mT / 2
    if "softcap" in PATHS[path]:
        scores = 5.0 * torch.tanh(scores / 5.0)
    hidden = torch.ones(40, 40).triu(1).bool()
    scores = (scores + encoding.bias(q, k, at, at, None)).masked_fill(hidden, -torch.inf)
    parameters = list(encoding.parameters())
    exact = torch.autograd.grad((scores.softmax(-1) @ v * weights).sum(), parameters)
    if path == "computed anew":
        for most in ("_KEPT_ELEMENTS", "_RECOMPUTED_ELEMENTS", "_BLOCK_ELEMENTS"):
            monkeypatch.setattr(blocks, most, 2048)
    output = attention(q, k, v, mask=Causal(), bias=of_rows, **PATHS[path])
    found = torch.autograd.grad((output * weights).sum(), parameters)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
        assert other.any()


@every_formula
def test_no_tensor_is_as_large_as_the_matrix(name):
    """Bias of 16 queries over 3,000 keys: what is made for them does not grow with the rows left out."""
    encoding = FORMULAS[name][0](HEADS)
    at = torch.arange(3000)
    q, k = torch.zeros(1, HEADS, 16, 2), torch.zeros(1, HEADS, 3000, 2)
    sizes = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            sizes.extend(t.numel() for t in [made] if isinstance(t, torch.Tensor))
            return made

    with Watch(), torch.no_grad():
        encoding.bias(q, k, at[-16:], at, None)
    assert max(sizes) <= 16 * 3000 * 32  # Fire's hidden layer is 32 wide
