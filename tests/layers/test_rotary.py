"""Rotary against `reference.py` and two peers, and right at any position in any dtype.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each (scalings, xPos,
several axes and configurations have tables in their own files):

    1           pairs split one way and joined another          test_turning_keeps_the_length
    2           an odd width                                    test_messages: "odd rotary"
    6, L13, L24 angles in half precision, or cast with a model  test_the_error_does_not_grow_with_the_position
    L6          a half-precision call spoils a later one        test_half_precision_leaves_no_trace
    L3          the second base gets the first one's table      test_half_precision_leaves_no_trace
    18, 19      partial rotary ignored, or by the whole width   test_partial
    20, 21      the other layout                                test_the_layouts_are_one_function
    25, 27      rows of a batch at places of their own, pads    test_rows_at_places_of_their_own
    26          one token in each row                           test_rows_at_places_of_their_own
    28          negative positions                              test_turning_back
    31          a result in another dtype                       test_the_error_does_not_grow_with_the_position
"""

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from headwise import reference
from headwise.layers import Rotary

PAIRS = ["halves", "neighbours"]
both_layouts = pytest.mark.parametrize("pairs", PAIRS)
FAR = 100_003


def by_reference(x, positions, pairs, base=10000.0):
    """Each row of each head through the reference, in float64."""
    flat = x.double().flatten(0, 1)
    turned = [
        torch.from_numpy(reference.rotary(part.numpy(), positions.numpy(), base, pairs)) for part in flat
    ]
    return torch.stack(turned).reshape(x.shape)


@both_layouts
@pytest.mark.parametrize("head_dim", [2, 4, 10, 64])
@pytest.mark.parametrize("base", [100.0, 10000.0, 500000.0])
def test_against_the_reference(pairs, head_dim, base):
    x, positions = torch.randn(2, 3, 7, head_dim).double(), torch.tensor([0, 1, 2, 5, 300, -4, FAR])
    turned = Rotary(base, pairs=pairs).turn(x, positions)
    # an angle of 1e5 in float64 is right to 1e5 * 2^-53 = 1e-11, and near 0 to 1e-16
    torch.testing.assert_close(turned, by_reference(x, positions, pairs, base), rtol=0.0, atol=1e-10)
    near = Rotary(base, pairs=pairs).turn(x[:, :, :6], positions[:6])
    torch.testing.assert_close(
        near, by_reference(x[:, :, :6], positions[:6], pairs, base), rtol=0.0, atol=1e-12
    )


def test_halves_against_llama_of_transformers():
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16, max_position_embeddings=512)
    positions = torch.randint(0, 512, (2, 9))
    q, k = torch.randn(2, 4, 9, 16), torch.randn(2, 2, 9, 16)
    theirs = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, positions))
    ours = Rotary(pairs="halves").rotate(q, k, positions, positions)
    for our, their in zip(ours, theirs, strict=True):
        # their angles are float32: off by up to 512 * 2^-24 from the product and as much from the frequency
        torch.testing.assert_close(our, their, rtol=0.0, atol=2 * 512 * 2**-24 * float(q.abs().max()) * 2)


def test_neighbours_against_complex_numbers():
    """RoFormer's own words: pair i is a complex number, times ``e^(i m theta)``."""
    x, positions = torch.randn(2, 3, 9, 8).double(), torch.arange(9)
    theta = torch.tensor([10000.0 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)
    hands = torch.exp(1j * positions[:, None] * theta)
    turned = torch.complex(x[..., 0::2], x[..., 1::2]) * hands
    ours = Rotary(pairs="neighbours").turn(x, positions)
    torch.testing.assert_close(ours[..., 0::2], turned.real, rtol=0.0, atol=1e-12)
    torch.testing.assert_close(ours[..., 1::2], turned.imag, rtol=0.0, atol=1e-12)


@both_layouts
def test_the_layouts_are_one_function(pairs):
    x, positions = torch.randn(1, 1, 5, 6).double(), torch.arange(5)
    order = torch.tensor([0, 2, 4, 1, 3, 5])  # neighbours (0 1)(2 3)(4 5) become halves (0 3)(1 4)(2 5)
    halves = Rotary(pairs="halves").turn(x[..., order], positions)
    neighbours = Rotary(pairs="neighbours").turn(x, positions)
    torch.testing.assert_close(halves, neighbours[..., order], rtol=0.0, atol=1e-12)


@both_layouts
def test_queries_and_keys_both_turn(pairs):
    """``(R_m q) . (R_n k)`` is ``q . (R_(n - m) k)``: it depends on the distance, and on its sign."""
    q, k = torch.randn(2, 1, 1, 1, 8).double()
    rotary = Rotary(pairs=pairs)

    def score(m, n):
        turned = rotary.rotate(q, k, torch.tensor([m]), torch.tensor([n]))
        return float((turned[0] * turned[1]).sum())

    alone = float((q * by_reference(k, torch.tensor([3]), pairs)).sum())
    assert score(0, 3) == pytest.approx(alone, abs=1e-12)
    assert score(40, 43) == pytest.approx(alone, abs=1e-12)
    assert abs(score(3, 0) - alone) > 1e-3


@both_layouts
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [0, 250, FAR])
def test_the_error_does_not_grow_with_the_position(pairs, dtype, first):
    """Cosine and sine are exact to half a float32 eps, the turn does three float32 operations, the result is
    rounded once to its dtype: 5 u_32 + u_dtype of the pair's length, wherever the token stands."""
    x, positions = torch.randn(1, 2, 16, 32).to(dtype), torch.arange(first, first + 16)
    turned = Rotary(pairs=pairs).turn(x, positions)
    assert turned.dtype == dtype
    error = (turned.double() - by_reference(x, positions, pairs)).abs()
    a, b = (x[..., :16], x[..., 16:]) if pairs == "halves" else (x[..., 0::2], x[..., 1::2])
    length = torch.hypot(a.double(), b.double())
    length = torch.cat((length, length), -1) if pairs == "halves" else length.repeat_interleave(2, -1)
    u = torch.finfo(dtype).eps / 2
    smallest = (
        torch.finfo(dtype).smallest_normal * 2 * u
    )  # what a result below the normal range is rounded to
    assert (error <= (5 * 2**-24 + u) * length + smallest).all()


@both_layouts
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_neighbouring_positions_stay_apart(pairs, dtype):
    """In bfloat16 256 and 257 are one number, in float16 2048 and 2049 are."""
    for position in (256, 2048, FAR):
        x = torch.ones(1, 1, 2, 8, dtype=dtype)
        one, next_one = Rotary(pairs=pairs).turn(x, torch.tensor([position, position + 1]))[0, 0]
        assert (one - next_one).abs().max() > 0.1


@both_layouts
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_turning_keeps_the_length(pairs, dtype):
    x = torch.randn(2, 3, 9, 16, dtype=dtype)
    turned = Rotary(pairs=pairs).turn(x, torch.arange(FAR, FAR + 9))
    # five operations a number, then a root of a sum of squares of 16: 30 u at most
    torch.testing.assert_close(
        turned.norm(dim=-1), x.norm(dim=-1), rtol=30 * torch.finfo(dtype).eps / 2, atol=0
    )


@both_layouts
def test_turning_leaves_its_input_alone_and_position_zero_as_it_is(pairs):
    x = torch.randn(1, 2, 4, 8)
    before = x.clone()
    turned = Rotary(pairs=pairs).turn(x, torch.tensor([0, 1, 0, 2]))
    assert torch.equal(x, before)
    assert torch.equal(turned[:, :, [0, 2]], x[:, :, [0, 2]])


@both_layouts
@pytest.mark.parametrize(("dims", "head_dim"), [(16, 64), (2, 3), (6, 6)])
def test_partial(pairs, dims, head_dim):
    """The first dims turn as a head of that width does, the others pass to the last bit."""
    x, positions = torch.randn(1, 2, 5, head_dim).double(), torch.tensor([0, 1, 7, 300, FAR])
    turned = Rotary(pairs=pairs, dims=dims).turn(x, positions)
    assert torch.equal(turned[..., dims:], x[..., dims:])
    expected = by_reference(x[..., :dims], positions, pairs)
    torch.testing.assert_close(turned[..., :dims], expected, rtol=0.0, atol=1e-10)
    assert torch.equal(
        Rotary(pairs=pairs, dims=dims).turn(x.bfloat16(), positions)[..., dims:], x.bfloat16()[..., dims:]
    )


@both_layouts
@pytest.mark.parametrize("length", [1, 4])
def test_rows_at_places_of_their_own(pairs, length):
    x, positions = torch.randn(3, 2, length, 8).double(), torch.randint(0, 5000, (3, length))
    together = Rotary(pairs=pairs).turn(x, positions)
    for row in range(3):
        alone = by_reference(x[[row]], positions[row], pairs)
        torch.testing.assert_close(together[[row]], alone, rtol=0.0, atol=1e-11)


@both_layouts
def test_turning_back(pairs):
    x, positions = torch.randn(1, 2, 4, 8).double(), torch.tensor([0, 1, 257, FAR])
    rotary = Rotary(pairs=pairs)
    back = rotary.turn(rotary.turn(x, positions), -positions)
    torch.testing.assert_close(back, x, rtol=0.0, atol=1e-12)


@both_layouts
def test_half_precision_leaves_no_trace(pairs):
    """A call in bfloat16, a cast to it, an encoding of another base: none changes what float32 calls give."""
    x, positions, rotary = torch.randn(1, 1, 4, 8), torch.arange(255, 259), Rotary(pairs=pairs)
    before = rotary.turn(x, positions)
    rotary.to(torch.bfloat16).turn(x.bfloat16(), positions)
    Rotary(1e6, pairs=pairs).turn(x, positions)
    assert torch.equal(rotary.turn(x, positions), before)
    assert not torch.allclose(Rotary(1e6, pairs=pairs).turn(x, positions), before)
