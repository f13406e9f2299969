"""Float32 and half precision stay within what rounding explains.

The reference gets the inputs as rounded, in float64, so only the arithmetic differs. Let u be half the
dtype's eps (the relative error of one operation), d the head_dim, n the keys, and

    S = the largest of scale * sum_i |q_i k_i|    (what a score's terms add up to)
    B = the largest |bias|                        (0 without one)

To first order, after Higham (Accuracy and Stability of Numerical Algorithms, section 3.1):

- a score is off by at most (d + 2) u S for the dot product and the scale, and 2 u (S + B) for adding the bias
  and subtracting the largest score;
- a weight's relative error is twice that (once above and once below the fraction bar), n u for the sum below,
  and 4 u for two exps and the division;
- the output adds n u for its own sum: in all, at most ``sum_j p_j |v_j|`` times
  u * (2 (d + 2) S + 4 (S + B) + 2 n + 4).

Half precision does all this in float32, and rounds three things to half: the weights, their products with
the values as a kernel may keep them, and the output: 3 u_half times the same sum more.
"""

import pytest
import torch

from headwise.core import Causal, attention
from headwise.layers import ALiBi
from tests.core.cases import draw, expected, make_mask
from tests.core.paths import force_small_blocks

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def unit(dtype):
    return torch.finfo(dtype).eps / 2


def bound(q, k, v, visible=None, bias=None):
    """The bound above for each number of the output."""
    dtype, average = q.dtype, expected(q, k, v.abs(), visible=visible, bias=bias)
    q, k = q.double(), k.double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    d, n = k.shape[-1], k.shape[-2]
    s = (q.abs() @ k.abs().mT).max() * d**-0.5
    b = 0.0 if bias is None else bias.abs().max()
    arithmetic = unit(torch.float32) * (2 * (d + 2) * s + 4 * (s + b) + 2 * n + 4)
    half = 0.0 if dtype == torch.float32 else 3 * unit(dtype)
    return average * (arithmetic + half)


def make_bias(q, k, rows, columns, visible):
    """ALiBi on slots: with 300 keys the distances pass 256, where bfloat16 stops telling them apart."""
    positions = torch.arange(max(rows.stop, columns.stop))
    return ALiBi(q.shape[1]).bias(q, k, positions[rows], positions[columns], visible)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [None, "causal", "padding", "causal & padding"])
@pytest.mark.parametrize("how", ["plain", "bias", "other value width", "dense"])
def test_within_rounding_of_the_reference(monkeypatch, dtype, name, how):
    force_small_blocks(monkeypatch, rows=100)
    length, head_dim = 300, 16
    value_dim = {"other value width": 8, "dense": 150}.get(how, head_dim)
    q, k, v = draw(length, length, heads=2, kv_heads=1, head_dim=head_dim, value_dim=value_dim, dtype=dtype)
    mask, visible = (None, None) if name is None else make_mask(name, length, length)
    everything = slice(0, length)
    bias = make_bias(q.double(), k, everything, everything, None) if how == "bias" else None
    output = attention(q, k, v, mask=mask, bias=make_bias if how == "bias" else None)
    assert output.dtype == dtype
    error = (output.double() - expected(q, k, v, visible=visible, bias=bias)).abs()
    assert (error <= bound(q, k, v, visible, bias)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_softcap_is_taken_in_float32(dtype):
    """Scores up to a hundred under a cap of 30, which in bfloat16 alone would round them by 0.06.

    The cap's slope is at most 1, so what a score is off by gets no larger; its own three operations round a
    number of at most 30 once each, which a weight feels twice.
    """
    q, k, v = draw(50, 50, head_dim=16, dtype=dtype)
    q = q * 16  # exact
    error = (attention(q, k, v, softcap=30.0).double() - expected(q, k, v, softcap=30.0)).abs()
    average = expected(q, k, v.abs(), softcap=30.0)
    uncapped = bound(q, k, v) / expected(q, k, v.abs())  # what each number's average is multiplied by
    assert (error <= average * (uncapped + 2 * 3 * 30 * unit(torch.float32))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bound_is_not_idle(dtype):
    """A causal mask off by one breaks it at most numbers, so it can tell right from wrong."""
    q, k, v = draw(30, 30, head_dim=16, dtype=dtype)
    visible = torch.ones(2, 30, 30, dtype=torch.bool).tril(-1)
    error = (attention(q, k, v, mask=Causal()).double() - expected(q, k, v, visible=visible)).abs()
    assert (error > bound(q, k, v, visible)).double().mean() > 0.5


@pytest.mark.parametrize("how", ["bias", "softcap", "dense"])
def test_autocast_does_not_round_what_is_kept_wide(how):
    """Float32 inputs whose scores or biases need more than bfloat16's eight bits come through unharmed."""
    q, k, v = draw(1, 400, value_dim=150 if how == "dense" else 6, dtype=torch.float32)
    kwargs = {
        "bias": {"bias": -(torch.arange(400.0) - 301).abs()[None, None, None]},
        "softcap": {"softcap": 30.0},
        "dense": {},
    }[how]
    plain = attention(q, k, v, **kwargs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(attention(q, k, v, **kwargs), plain)
