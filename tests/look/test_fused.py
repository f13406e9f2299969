"""scaled_dot_product_attention: every way to call it, and the kernel's own rules."""

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention as imported_earlier

from headwise.core import attention_weights
from headwise.look import watch
from tests.look.models import dense, fused

SPELLINGS = {
    "functional": lambda *args, **options: torch.nn.functional.scaled_dot_product_attention(*args, **options),
    "imported earlier": imported_earlier,
    "torch._C._nn": torch._C._nn.scaled_dot_product_attention,
    "aten": torch.ops.aten.scaled_dot_product_attention,
    "aten default": torch.ops.aten.scaled_dot_product_attention.default,
}
# a float32 dot product of 8 terms, then exp and a sum of at most 7: within 40 roundings of values up to 1
EXACT = 40 * torch.finfo(torch.float32).eps


class Calls(torch.nn.Module):
    """A model that only calls the kernel, with what it is given."""

    def __init__(self, how=imported_earlier):
        super().__init__()
        self.how = how

    def forward(self, *args, **options):
        return self.how(*args, **options)


def one(*args, how=imported_earlier, **options):
    """The one call of the kernel, its output unchanged and understood."""
    model, calls = Calls(how), []
    want = model(*args, **options)
    with watch(model, calls.append, verify=True) as coverage:
        got = model(*args, **options)
    assert torch.equal(want, got)
    (call,) = calls
    assert coverage.compared == 1
    assert coverage.largest_difference <= EXACT
    assert torch.equal(call.output.reshape(want.shape), want)
    return call


def rebuilt(call):
    return attention_weights(call.q, call.k, **call.score_inputs())


def tensors(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_seen_with_its_arguments(spelling):
    q, k, v = tensors(2, 4, 3, 8), tensors(2, 2, 5, 8), tensors(2, 2, 5, 8)
    visible = torch.rand(2, 1, 3, 5) > 0.3
    call = one(q, k, v, attn_mask=visible, scale=0.7, enable_gqa=True, how=SPELLINGS[spelling])
    assert (call.kind, call.heads, call.kv_heads, call.scale, call.dropout) == ("fused", 4, 2, 0.7, 0.0)
    assert torch.equal(call.visible, visible)
    torch.testing.assert_close(rebuilt(call).double(), dense(q, k, 0.7, visible), atol=EXACT, rtol=0)


def test_the_scale_is_the_one_used():
    q = tensors(1, 2, 3, 16)
    assert one(q, q, q).scale == 0.25
    assert one(q, q, q, scale=1.0).scale == 1.0


@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (5, 3), (4, 4), (1, 6)])
def test_the_causal_flag_counts_from_the_upper_left(queries, keys):
    q, k = tensors(1, 2, queries, 8), tensors(1, 2, keys, 8)
    call = one(q, k, k, is_causal=True)
    visible = torch.arange(keys) <= torch.arange(queries)[:, None]
    assert call.causal == "upper left"
    torch.testing.assert_close(rebuilt(call).double(), dense(q, k, 8**-0.5, visible), atol=EXACT, rtol=0)


@pytest.mark.parametrize("made", [causal_upper_left, causal_lower_right])
def test_a_causal_bias_says_its_corner(made):
    q, k = tensors(1, 2, 3, 8), tensors(1, 2, 5, 8)
    call = one(q, k, k, attn_mask=made(3, 5))
    first = 0 if made is causal_upper_left else 2
    visible = torch.arange(5) <= torch.arange(3)[:, None] + first
    torch.testing.assert_close(rebuilt(call).double(), dense(q, k, 8**-0.5, visible), atol=EXACT, rtol=0)


@pytest.mark.parametrize("form", ["boolean", "minus infinity"])
def test_a_row_that_sees_nothing_has_zeros(form):
    q, visible = tensors(1, 2, 3, 8), torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()
    mask = visible if form == "boolean" else torch.where(visible, 0.0, -torch.inf)
    call = one(q, q, q, attn_mask=mask)
    assert not rebuilt(call)[:, :, 1].any()
    torch.testing.assert_close(rebuilt(call).double(), dense(q, q, 8**-0.5, visible), atol=EXACT, rtol=0)


def test_a_row_of_the_lowest_number_is_uniform():
    q, mask = tensors(1, 2, 3, 8), torch.zeros(3, 3)
    mask[1] = torch.finfo(torch.float32).min
    call = one(q, q, q, attn_mask=mask)
    torch.testing.assert_close(rebuilt(call)[:, :, 1], torch.full((1, 2, 3), 1 / 3))


@pytest.mark.parametrize("form", ["boolean", "numbers"])
def test_mask_and_causal_flag_together_are_both_applied(form):
    q, mask = tensors(2, 2, 4, 8), torch.rand(2, 1, 4, 4) > 0.4
    given = mask if form == "boolean" else torch.where(mask, 0.5, -torch.inf)
    call = one(q, q, q, attn_mask=given, is_causal=True)
    want = dense(q, q, 8**-0.5, mask & torch.ones(4, 4).bool().tril())
    torch.testing.assert_close(rebuilt(call).double(), want, atol=EXACT, rtol=0)


@pytest.mark.parametrize(
    "shape", [(3, 5), (1, 5), (4, 3, 5), (1, 3, 5), (2, 4, 3, 5), (2, 1, 1, 5), (1, 4, 1, 5)]
)
@pytest.mark.parametrize("form", ["boolean", "numbers"])
def test_every_mask_that_broadcasts(shape, form):
    q, k = tensors(2, 4, 3, 8), tensors(2, 4, 5, 8)
    visible, bias = torch.rand(shape) > 0.3, torch.randn(shape)
    call = one(q, k, k, attn_mask=visible if form == "boolean" else bias)
    want = dense(q, k, 8**-0.5, visible) if form == "boolean" else dense(q, k, 8**-0.5, bias=bias)
    torch.testing.assert_close(rebuilt(call).double(), want, atol=EXACT, rtol=0)


def test_one_key_head_and_one_batch_row_are_broadcast():
    q, k = tensors(2, 4, 3, 8), tensors(1, 1, 5, 8)
    call = one(q, k, k)
    assert (call.heads, call.kv_heads) == (4, 1)
    torch.testing.assert_close(
        rebuilt(call).double(), dense(q, k.expand(2, 1, 5, 8), 8**-0.5), atol=EXACT, rtol=0
    )


def test_no_batch_axis_and_windows_in_two_axes():
    q = tensors(4, 3, 8)
    assert one(q, q, q, attn_mask=torch.rand(4, 3, 3) > 0.2).q.shape == (1, 4, 3, 8)
    windows = tensors(2, 5, 4, 3, 8)
    call = one(windows, windows, windows, attn_mask=torch.rand(5, 1, 3, 3) > 0.2)
    assert call.q.shape == (10, 4, 3, 8)


def test_values_of_another_width():
    q, v = tensors(1, 2, 3, 8), tensors(1, 2, 3, 5)
    assert one(q, q, v).output.shape == (1, 2, 3, 5)


def test_dropout_is_reported_and_not_compared():
    q, calls = tensors(1, 2, 3, 8), []
    with watch(Calls(), calls.append, verify=True) as coverage:
        Calls()(q, q, q, dropout_p=0.25)
    assert calls[0].dropout == 0.25
    assert (coverage.compared, coverage.not_comparable) == (0, {"dropout is random": 1})


def test_a_wrong_reading_is_found_by_the_comparison():
    from dataclasses import replace

    from headwise.look.calls.coverage import relative_difference

    q = tensors(1, 2, 3, 8)
    call = one(q, q, q, is_causal=True)
    assert relative_difference(replace(call, causal=None)) > 0.01
    assert relative_difference(replace(call, scale=1.0)) > 0.01


def test_queries_that_are_not_finite_are_not_compared():
    q, calls = tensors(1, 2, 3, 8), []
    q[0, 0, 1] = torch.nan
    with watch(Calls(), calls.append, verify=True) as coverage:
        Calls()(q, tensors(1, 2, 3, 8), tensors(1, 2, 3, 8))
    assert coverage.not_comparable == {"queries or keys are not finite": 1}


def test_some_rows_of_a_call_are_those_rows():
    q, k = tensors(2, 4, 6, 8), tensors(2, 2, 6, 8)
    mask = torch.rand(2, 1, 1, 6) > 0.3
    call = one(q, k, k, attn_mask=mask, is_causal=True, enable_gqa=True)
    rows = torch.tensor([1, 4])
    torch.testing.assert_close(call.at(rows).weights(), call.weights()[:, :, rows])


def test_half_precision_and_a_tensor_that_needs_a_gradient():
    q = tensors(1, 2, 3, 8, dtype=torch.bfloat16).requires_grad_()
    with watch(Calls(), lambda call: seen.append(call)) as coverage:
        seen = []
        output = fused(q, q, q)
    output.sum().backward()
    assert q.grad is not None
    assert not seen[0].q.requires_grad
    assert rebuilt(seen[0]).dtype == torch.float32
    assert coverage.calls == 1
