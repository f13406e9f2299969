"""The layer against `torch.nn.MultiheadAttention` with the same weights, in float64, gradients included."""

import pytest
import torch

from headwise.core import Causal, Padding
from headwise.layers import MultiHeadAttention

# Both sides do the same float64 sums of at most 20 terms of size about 1, in another order.
EXACT = {"rtol": 0.0, "atol": 1e-12}
MODEL_DIM, HEADS = 12, 3


def pair(memory_dim=MODEL_DIM, bias=True):
    """Torch's module, and our layer with its weights."""
    theirs = torch.nn.MultiheadAttention(
        MODEL_DIM, HEADS, bias=bias, batch_first=True, kdim=memory_dim, vdim=memory_dim
    ).double()
    ours = MultiHeadAttention(MODEL_DIM, HEADS, memory_dim=memory_dim, bias=bias).double()
    projections = (ours.query, ours.key, ours.value)
    separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = separate if theirs.in_proj_weight is None else theirs.in_proj_weight.chunk(3)
    with torch.no_grad():
        for projection, weight in zip(projections, weights, strict=True):
            projection.weight.copy_(weight)
        ours.output.weight.copy_(theirs.out_proj.weight)
        if bias:
            theirs.in_proj_bias.normal_()
            theirs.out_proj.bias.normal_()
            for projection, add in zip(projections, theirs.in_proj_bias.chunk(3), strict=True):
                projection.bias.copy_(add)
            ours.output.bias.copy_(theirs.out_proj.bias)
    return theirs, ours


KEEP = torch.tensor([[True, True, True, False, False], [False, True, True, True, True]])
CASES = {
    "all": (None, {}),
    "causal": (Causal(), {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)}),
    "padding": (Padding(KEEP), {"key_padding_mask": ~KEEP}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bias", [True, False])
def test_self_attention(case, bias):
    theirs, ours = pair(bias=bias)
    mask, their_masks = CASES[case]
    x, also_x = (
        torch.manual_seed(1) and torch.randn(2, 5, MODEL_DIM).double().requires_grad_() for _ in "ab"
    )
    output, weights = theirs(x, x, x, average_attn_weights=False, **their_masks)
    attended = ours.with_weights(also_x, mask=mask)
    torch.testing.assert_close(attended.output, output, **EXACT)
    torch.testing.assert_close(attended.weights.dense(), weights.detach(), **EXACT)
    mixture = torch.randn_like(output)
    (output * mixture).sum().backward()
    (attended.output * mixture).sum().backward()
    torch.testing.assert_close(also_x.grad, x.grad, **EXACT)
    our_gradients = torch.cat([p.weight.grad for p in (ours.query, ours.key, ours.value)])
    torch.testing.assert_close(our_gradients, theirs.in_proj_weight.grad, **EXACT)
    torch.testing.assert_close(ours.output.weight.grad, theirs.out_proj.weight.grad, **EXACT)


@pytest.mark.parametrize("memory_dim", [MODEL_DIM, 7])
@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention(memory_dim, padded):
    theirs, ours = pair(memory_dim)
    x, memory = torch.randn(2, 3, MODEL_DIM).double(), torch.randn(2, 5, memory_dim).double()
    output, _ = theirs(x, memory, memory, key_padding_mask=~KEEP if padded else None)
    mask = Padding(KEEP) if padded else None
    torch.testing.assert_close(ours(x, memory, mask=mask), output, **EXACT)


@pytest.mark.parametrize("case", CASES)
def test_in_float32_both_are_within_rounding_of_the_same(case):
    """Two right answers differ by rounding only: 5 keys, products of 12 terms, four in a row: 100 u each."""
    theirs, ours = pair()
    mask, their_masks = CASES[case]
    x = torch.randn(2, 5, MODEL_DIM)
    exact = ours(x.double(), mask=mask)
    largest = exact.abs().max().item()
    output, _ = theirs.float()(x, x, x, **their_masks)
    bound = 100 * torch.finfo(torch.float32).eps / 2 * largest
    torch.testing.assert_close(ours.float()(x, mask=mask).double(), exact, rtol=0.0, atol=bound)
    torch.testing.assert_close(output.double(), exact, rtol=0.0, atol=bound)
