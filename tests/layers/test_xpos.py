"""xPos against its formula and x-transformers; its centre is fixed, its range known.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each:

    3       the second call gets angles where scales belong       test_a_call_keeps_nothing
    4       the two of a pair scaled apart, a wrong precedence    test_a_score_depends_on_the_distance_only
    L8, L9  the centre follows the length                         test_the_centre_makes_no_difference
    76      with memories, or positions of each row               test_keys_of_a_cache
"""

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.layers import XPos
from tests.faults.peers import x_transformers
from tests.layers.encodings import words
from tests.layers.oracles import rotary as oracle

both_layouts = pytest.mark.parametrize("pairs", ["halves", "neighbours"])


def by_formula(x, positions, pairs, is_key, centre=0, base=10000.0):
    dims = x.shape[-1]
    layout = oracle.halves(dims) if pairs == "halves" else oracle.neighbours(dims)
    rows = [
        oracle.turned(
            row,
            oracle.at(at, oracle.frequencies(dims, base)),
            layout,
            oracle.xpos_sizes(dims, at, is_key, centre),
        )
        for row, at in zip(x.double().flatten(0, -2).tolist(), positions.tolist(), strict=True)
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(x.shape)


@both_layouts
@pytest.mark.parametrize(
    ("centre", "positions"), [(0, [0, 1, 512, -3]), (100_000, [99_000, 100_003, 100_000, 1 << 16])]
)
def test_against_the_formula(pairs, centre, positions):
    q, k, at = words(1, 1, 4, 10), words(1, 1, 4, 10), torch.tensor(positions)
    turned = XPos(100.0, pairs=pairs, centre=centre).rotate(q, k, at, at)
    for x, result, is_key in ((q, turned[0], False), (k, turned[1], True)):
        # an angle of 1e5 is right to 1e-11, a power of 70 to 1e-14 of itself
        torch.testing.assert_close(
            result, by_formula(x, at, pairs, is_key, centre, 100.0), rtol=1e-9, atol=1e-9
        )


def test_against_x_transformers():
    """Its centre is half the length of the call, 4 here."""
    theirs = x_transformers.RotaryEmbedding(8, use_xpos=True).double()
    x, at = words(1, 1, 8, 8), torch.arange(8)
    angles, scale = theirs(at)
    turned_q, turned_k = XPos(pairs="neighbours", centre=4).rotate(x, x, at, at)
    # it makes its frequencies and scales in float32
    near = {"rtol": 0.0, "atol": float(x.abs().max()) * 8 * 10 * 2**-24}
    torch.testing.assert_close(turned_q, x_transformers.apply_rotary_pos_emb(x, angles, scale), **near)
    torch.testing.assert_close(turned_k, x_transformers.apply_rotary_pos_emb(x, angles, scale**-1), **near)


def score(encoding, q, k, m, n):
    turned = encoding.rotate(q, k, torch.tensor([m]), torch.tensor([n]))
    return float((turned[0] * turned[1]).sum())


@both_layouts
def test_a_score_depends_on_the_distance_only(pairs):
    q, k = words(1, 1, 1, 8), words(1, 1, 1, 8)
    expected = float((q * by_formula(k, torch.tensor([-30]), pairs, is_key=True)).sum())
    for n in (0, 7, 4099):
        assert score(XPos(pairs=pairs), q, k, n + 30, n) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("centre", [-300, 512, 4000])
def test_the_centre_makes_no_difference(centre):
    q, k = words(1, 1, 1, 8), words(1, 1, 1, 8)
    assert score(XPos(centre=centre), q, k, 1003, 900) == pytest.approx(
        score(XPos(), q, k, 1003, 900), abs=1e-11
    )


def test_far_keys_weigh_less_and_fast_pairs_forget_first():
    ones, at = torch.ones(1, 1, 1, 64).double(), torch.tensor([512])
    q, k = XPos().rotate(ones, ones, at, torch.tensor([0]))
    sizes = torch.hypot(q[0, 0, 0, :32], q[0, 0, 0, 32:]) / 2**0.5
    assert sizes[0].item() == pytest.approx(0.4 / 1.4, abs=1e-12)
    assert sizes[-1].item() == pytest.approx((62 + 25.6) / 89.6, abs=1e-12)
    assert (sizes.diff() > 0).all()
    torch.testing.assert_close(
        torch.hypot(k[0, 0, 0, :32], k[0, 0, 0, 32:]), torch.full((32,), 2**0.5).double()
    )


def test_keys_of_a_cache():
    """Keys encoded as they came, rows at places of their own, are those of the whole sequence."""
    encoding, k = XPos(centre=20), words(2, 1, 9, 8)
    at = torch.stack([torch.arange(9), torch.arange(9) + 40])
    whole = encoding.rotate(k, k, at, at)[1]
    pieces = [encoding.rotate(k[:, :, [i]], k[:, :, [i]], at[:, [i]], at[:, [i]])[1] for i in range(9)]
    torch.testing.assert_close(torch.cat(pieces, dim=2), whole, rtol=0.0, atol=1e-12)
    for row in range(2):
        alone = encoding.rotate(k[[row]], k[[row]], at[row], at[row])[1]
        torch.testing.assert_close(alone, whole[[row]], rtol=0.0, atol=1e-12)


def test_a_call_keeps_nothing():
    encoding, k = XPos(), words(1, 1, 5, 8)
    first = encoding.rotate(k, k, torch.arange(5), torch.arange(5))
    encoding.rotate(words(1, 1, 50, 8), words(1, 1, 50, 8), torch.arange(50), torch.arange(50))
    second = encoding.rotate(k, k, torch.arange(5), torch.arange(5))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [255, 2047, 100_001])
def test_the_error_does_not_grow_with_the_position(dtype, first):
    """As for rotary, 6 u_32 + u_dtype of a pair's length, once it is scaled; with a centre near by."""
    x, at = torch.randn(1, 1, 5, 16).to(dtype), torch.arange(first, first + 5)
    turned = XPos(centre=first - 100).rotate(x, x, at, at)
    assert turned[0].dtype == turned[1].dtype == dtype
    for result, is_key in zip(turned, (False, True), strict=True):
        expected = by_formula(x, at, "halves", is_key, first - 100)
        lengths = torch.hypot(expected[..., :8], expected[..., 8:]).repeat(1, 1, 1, 2)
        bound = (6 * 2**-24 + torch.finfo(dtype).eps / 2) * lengths + 2 * torch.finfo(dtype).tiny
        assert ((result.double() - expected).abs() <= bound).all()


@pytest.mark.parametrize(
    ("dtype", "reach"),
    [(torch.float16, 2266), (torch.bfloat16, 16997), (torch.float32, 16997), (torch.float64, 141643)],
)
def test_within_its_range_every_product_is_finite_and_beyond_it_refuses(dtype, reach):
    """A query and a key at opposite ends, the wrong way round too, as a mask may have to hide."""
    x = torch.ones(1, 1, 2, 64, dtype=dtype)
    ends = torch.tensor([-reach, reach]) + 100_000
    q, k = XPos(centre=100_000).rotate(x, x, ends, ends)
    scores = (
        q.to(torch.promote_types(dtype, torch.float32)) @ k.to(torch.promote_types(dtype, torch.float32)).mT
    )
    assert scores.isfinite().all()
    assert q.abs().amin(-1).gt(0).all()
    with pytest.raises(HeadwiseError, match="positions must be from"):
        XPos(centre=100_000).rotate(x, x, ends, ends + 3)
