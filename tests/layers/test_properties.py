"""Laws that hold for every encoding, mask and size, tried on drawn cases in float64.

"Exact" means one of two things, and each test says which. To the last bit: where a number is zero by
construction. To rounding: where the same terms are added in another order; ten terms of size about 1, a few
products deep, agree to 1e-12.
"""

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import Causal, Padding, SlidingWindow
from headwise.layers import MultiHeadAttention
from tests.core.cases import MASKS, make_mask
from tests.layers.encodings import ABSOLUTE, CACHEABLE, ENCODINGS, ORDERED, RELATIVE, layer_with, words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}
few = settings(max_examples=12, deadline=None, derandomize=True, database=None)
# masks that do not care how many slots stand before the first real token
SHIFTING_MASKS = {
    "all": None,
    "causal": Causal(),
    "window 2": SlidingWindow(2),
    "window 2 + 1": SlidingWindow(2, ahead=1),
    "causal & window 3": Causal() & SlidingWindow(3),
}
encodings = pytest.mark.parametrize("name", ENCODINGS)


class Case(NamedTuple):
    layer: MultiHeadAttention
    x: torch.Tensor


@st.composite
def sizes(draw, shortest=1):
    """heads, kv_heads, head_dim, batch, length and a seed."""
    heads = draw(st.integers(1, 4))
    kv_heads = draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0]))
    head_dim = draw(st.sampled_from([2, 4]))
    batch, length = draw(st.integers(1, 2)), draw(st.integers(shortest, 7))
    return heads, kv_heads, head_dim, batch, length, draw(st.integers(0, 2**16))


def build(name, drawn, batch=None, **kwargs):
    heads, kv_heads, head_dim, drawn_batch, length, seed = drawn
    torch.manual_seed(seed)
    layer = layer_with(name, heads * head_dim, heads, kv_heads=kv_heads, **kwargs)
    torch.nn.init.normal_(layer.output.bias)
    return Case(layer, words(batch or drawn_batch, length, heads * head_dim))


def permuted(case, order):
    """How far permuting the input is from permuting the output."""
    return (case.layer(case.x[:, order]) - case.layer(case.x)[:, order]).abs().max().item()


@few
@given(drawn=sizes(), data=st.data())
def test_without_encoding_and_mask_order_does_not_matter(drawn, data):
    """To rounding: softmax and the average add the same terms in another order."""
    case = build("none", drawn)
    order = data.draw(st.permutations(range(case.x.shape[1])))
    assert permuted(case, order) <= 1e-12


@pytest.mark.parametrize("name", ORDERED)
@few
@given(drawn=sizes(shortest=3), data=st.data())
def test_with_an_encoding_order_matters(name, drawn, data):
    case = build(name, drawn)
    length = case.x.shape[1]
    same_distances = [list(range(length)), list(range(length))[::-1]]
    order = data.draw(st.permutations(range(length)).filter(lambda order: list(order) not in same_distances))
    assert permuted(case, order) > 1e-9


@few
@given(drawn=sizes(shortest=2))
def test_reading_backwards(drawn):
    """Reversing keeps every distance, so ALiBi without a mask is blind to it; rotary knows the direction."""
    backwards = list(range(drawn[4]))[::-1]
    assert permuted(build("alibi", drawn), backwards) <= 1e-12
    assert permuted(build("rotary, halves", drawn), backwards) > 1e-9


@few
@given(drawn=sizes(shortest=2))
def test_a_causal_mask_alone_shows_order(drawn):
    assert permuted(build("none", drawn, mask=Causal()), list(range(drawn[4]))[::-1]) > 1e-9


@pytest.mark.parametrize("mask_name", MASKS)
@few
@given(drawn=sizes(shortest=1), name=st.sampled_from(list(ENCODINGS)), data=st.data())
def test_nothing_flows_where_the_mask_hides(mask_name, drawn, name, data):
    """To the last bit: the gradient of a query's output to a token that it may not see is zero."""
    length = drawn[4]
    mask, visible = make_mask(mask_name, length, length)
    layer, x = build(name, drawn, batch=2, mask=mask)
    x.requires_grad_()
    query = data.draw(st.integers(0, length - 1))
    (gradient,) = torch.autograd.grad(layer(x)[:, query].sum(), x)
    hidden = ~visible[:, query]
    hidden[:, query] = False  # a token always reaches its own query
    assert not gradient[hidden].any()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", CACHEABLE)
@few
@given(drawn=sizes(), more=st.integers(1, 3))
def test_what_comes_later_changes_nothing_before_under_a_causal_mask(name, drawn, more):
    layer, x = build(name, drawn, mask=Causal())
    length = x.shape[1]
    longer = torch.cat((x, words(x.shape[0], more, x.shape[2])), dim=1)
    torch.testing.assert_close(layer(longer)[:, :length], layer(x), **ROUNDING)


@pytest.mark.parametrize("mask_name", SHIFTING_MASKS)
@encodings
@few
@given(drawn=sizes(), count=st.integers(1, 4), left=st.booleans())
def test_padding_changes_nothing(name, mask_name, drawn, count, left):
    """Real tokens come out as without padding, to rounding; what stands in the padding, to the last bit."""
    layer, x = build(name, drawn, mask=SHIFTING_MASKS[mask_name])
    batch, length, width = x.shape
    keep = torch.zeros(batch, length + count, dtype=torch.bool)
    real = slice(count, None) if left else slice(0, length)
    keep[:, real] = True
    padding = Padding(keep)

    def padded(content):
        parts = (content, x) if left else (x, content)
        return layer(torch.cat(parts, dim=1), mask=padding, positions=padding.positions())[:, real]

    zeros = padded(torch.zeros(batch, count, width, dtype=x.dtype))
    torch.testing.assert_close(zeros, layer(x), **ROUNDING)
    assert torch.equal(padded(words(batch, count, width)), zeros)
    assert torch.equal(padded(1e4 * words(batch, count, width)), zeros)


@encodings
@pytest.mark.parametrize("other", [None, Causal(), SlidingWindow(2)])
@few
@given(drawn=sizes())
def test_a_row_of_nothing_but_padding(name, other, drawn):
    """To the last bit: the heads give zeros, so the layer gives its bias; every gradient is finite."""
    layer, x = build(name, drawn, batch=2, mask=other)
    keep = torch.ones(2, x.shape[1], dtype=torch.bool)
    keep[1] = False
    x.requires_grad_()
    output = layer(x, mask=Padding(keep))
    assert torch.equal(output[1], layer.output.bias.expand_as(output[1]))
    output.square().sum().backward()
    assert not x.grad[1].any()
    assert x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


def shifted(case, by):
    """How far the output moves when every position grows by the same number."""
    at = torch.arange(case.x.shape[1])
    return (case.layer(case.x, positions=at + by) - case.layer(case.x, positions=at)).abs().max().item()


@pytest.mark.parametrize("by", [17, 4099])
@pytest.mark.parametrize("name", RELATIVE)
@few
@given(drawn=sizes(), mask_name=st.sampled_from(list(SHIFTING_MASKS)))
def test_relative_encodings_do_not_see_a_shift(name, by, drawn, mask_name):
    """To rounding: an angle near 4,099 is right to 5e-13 in float64, a score to ten times that."""
    assert shifted(build(name, drawn, mask=SHIFTING_MASKS[mask_name]), by) <= 1e-11


@pytest.mark.parametrize("by", [17, 4099])
@pytest.mark.parametrize("name", ABSOLUTE)
@few
@given(drawn=sizes(shortest=2), mask_name=st.sampled_from(list(SHIFTING_MASKS)))
def test_absolute_encodings_do(name, by, drawn, mask_name):
    """With two tokens or more: a single key has all the weight, whatever is added to its score."""
    assert shifted(build(name, drawn, mask=SHIFTING_MASKS[mask_name]), by) > 1e-6


@encodings
@few
@given(drawn=sizes(), mask_name=st.sampled_from(list(SHIFTING_MASKS)))
def test_rows_of_a_batch_do_not_know_each_other(name, drawn, mask_name):
    """Each row as alone, to rounding; its gradient to the other row is zero, to the last bit."""
    layer, x = build(name, drawn, batch=2, mask=SHIFTING_MASKS[mask_name])
    x.requires_grad_()
    output = layer(x)
    for row in range(2):
        torch.testing.assert_close(output[row : row + 1], layer(x[row : row + 1]), **ROUNDING)
        (gradient,) = torch.autograd.grad(output[row].sum(), x, retain_graph=True)
        assert not gradient[1 - row].any()
