"""What takes the place of a head's output: each replacement against its formula, for every kind of mask."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.look import Mean, Uniform, ablate, watch
from tests.look.models import Split, Stack, by_hand, dense, fused


def x(length=5):
    return torch.randn(2, length, 8)


@pytest.mark.parametrize("to", [Uniform(), Mean()])
@pytest.mark.parametrize("attend", [fused, by_hand])
def test_gradients_flow_through_what_replaces_a_head(attend, to):
    def other(q, k, v):
        if isinstance(to, Mean):
            new = attend(q, k, v)[:, 1].mean((0, 1)).expand(2, 5, 4)
        else:
            new = torch.ones(5, 5, dtype=v.dtype).tril().div(torch.arange(1.0, 6.0)[:, None]) @ v[:, 1]
        return torch.stack((attend(q, k, v)[:, 0], new), dim=1)

    model, given = Stack(attend).double(), x().double()
    with ablate(model, "0.1", to=to):
        got = model(given)
        got.square().sum().backward()
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model.first.attend = other
    want = model(given)
    want.square().sum().backward()
    # float64 sums of tens of terms near 1, and as many again backward
    torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)
    for grad, parameter in zip(grads, model.parameters(), strict=True):
        torch.testing.assert_close(grad, parameter.grad, atol=1e-11, rtol=1e-11)


def one(to, heads=(0,), **options):
    """What replaces some heads of one call of the kernel, and the call."""
    calls, found = [], []

    class Calls(nn.Module):
        def forward(self, q, k, v):
            return functional.scaled_dot_product_attention(q, k, v, **options)

    shapes = options.pop("shapes", ((2, 4, 6, 8), (2, 4, 6, 8)))
    q, k = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    v = torch.randn(*k.shape[:3], 8, dtype=torch.float64)
    with watch(Calls(), calls.append) as _, ablate(Calls(), [(0, head) for head in heads], to=to):
        found.append(Calls()(q, k, v))
    return found[0][:, list(heads)], calls[0]


# a mean of at most 6 float64 numbers near 1, by two kernels
CLOSE = {"atol": 1e-14, "rtol": 1e-14}
KEEP = torch.tensor([[True] * 6, [False, False, True, True, True, True]])
PAIRS = torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(2)) > 0.4
CASES = {
    "everything": ({}, torch.ones(1, 1, 6, 6)),
    "causal": ({"is_causal": True}, torch.ones(1, 1, 6, 6).tril()),
    "causal over more keys": (
        {"is_causal": True, "shapes": ((2, 4, 3, 8), (2, 4, 6, 8))},
        torch.ones(1, 1, 3, 6).tril(),
    ),
    "padding": ({"attn_mask": KEEP[:, None, None]}, KEEP[:, None, None].expand(-1, -1, 6, -1)),
    "a mask for each head": ({"attn_mask": PAIRS}, PAIRS),
    "a float mask": ({"attn_mask": torch.where(PAIRS, 0.0, -torch.inf).double()}, PAIRS),
    "the lowest number": (
        {"attn_mask": torch.where(PAIRS, torch.randn(6), torch.finfo(torch.float32).min).double()},
        PAIRS,
    ),
    "minus ten thousand in half": (
        {"attn_mask": torch.where(PAIRS, 0.0, torch.tensor(-1e4).bfloat16().float()).double()},
        PAIRS,
    ),
    "a bias that hides nothing": ({"attn_mask": 50 * torch.randn(6, 6).double()}, torch.ones(1, 1, 6, 6)),
    "grouped": ({"enable_gqa": True, "shapes": ((2, 4, 6, 8), (2, 2, 6, 8))}, torch.ones(1, 1, 6, 6)),
}


@pytest.mark.parametrize("case", CASES)
def test_uniform_attention_is_even_over_the_visible_keys(case):
    options, visible = CASES[case]
    got, call = one(Uniform(), heads=(1, 3), **options)
    weights = visible.double() / visible.double().sum(-1, keepdim=True).clamp(min=1)
    weights = weights.expand(2, 4, -1, -1)[:, [1, 3]]
    v = call.v.repeat_interleave(4 // call.kv_heads, 1)[:, [1, 3]]
    torch.testing.assert_close(got, weights @ v, **CLOSE)


def test_uniform_leaves_sinks_out():
    def attend(q, k, v):
        scores = torch.cat((q @ k.mT, torch.full((*q.shape[:3], 1), 3.0)), -1)
        return scores.softmax(-1)[..., :-1] @ v

    model, given, calls = Split(attend), x(), []
    with torch.no_grad(), watch(model, calls.append), ablate(model, "0.0", to=Uniform()):
        got = model(given)
    want = calls[0].v[:, 0].mean(1, keepdim=True).expand(-1, 5, -1)
    torch.testing.assert_close(got[..., :4], want, atol=1e-6, rtol=0)  # float32: a mean of 5 numbers below 2


@pytest.mark.parametrize(
    ("case", "rows"),
    [
        ("everything", torch.ones(2, 6)),
        ("causal", torch.ones(2, 6)),
        ("causal over more keys", torch.ones(2, 3)),
        ("padding", KEEP),
        ("padding and causal", KEEP),
        ("left padding of hand", KEEP),
        ("padding of a memory", torch.ones(2, 3)),
        ("a row that sees only what comes later", torch.tensor([[0, 1, 1, 1, 1, 1]] * 2)),
    ],
)
def test_the_mean_is_over_the_real_rows(case, rows):
    causal = KEEP[:, None, None] & torch.ones(6, 6).bool().tril()
    more = {
        "padding and causal": {"attn_mask": KEEP[:, None, None], "is_causal": True},
        "left padding of hand": {"attn_mask": causal},
        "padding of a memory": {"attn_mask": KEEP[:, None, None], "shapes": ((2, 4, 3, 8), (2, 4, 6, 8))},
    }
    later = torch.ones(6, 6).bool()
    later[0, 0] = False
    more["a row that sees only what comes later"] = {"attn_mask": later, "is_causal": True}
    options = more[case] if case in more else CASES[case][0]
    got, call = one(Mean(), heads=(2,), **options)
    want = call.output[:, 2][rows.bool()].mean(0)
    torch.testing.assert_close(got, want.expand_as(got), **CLOSE)


def test_the_mean_leaves_out_rows_that_are_nan():
    hidden = torch.zeros(5, 5).bool()
    hidden[2] = True
    model = Split(lambda q, k, v: (q @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ v)
    given, calls = x(), []
    with torch.no_grad(), watch(model, calls.append), ablate(model, "0.1", to=Mean()):
        got = model(given)
    want = calls[0].output[:, 1, [0, 1, 3, 4]].mean((0, 1))
    torch.testing.assert_close(got[..., 4:], want.expand(2, 5, 4), atol=1e-6, rtol=0)


def test_a_mean_from_reference_data():
    model, reference, given = Stack(fused), [torch.randn(2, 5, 8), torch.randn(1, 9, 8)], x()
    rows = {"first": [], "second": []}
    with torch.no_grad(), watch(model, lambda call: rows[call.module].append(call.output.double())):
        for batch in reference:
            model(batch)
    mean = Mean.over(model, lambda: [model(batch) for batch in reference])
    for name, outputs in rows.items():
        want = torch.cat([y.transpose(1, 2).flatten(0, 1) for y in outputs]).mean(0)
        torch.testing.assert_close(mean.reference[name], want, **CLOSE)
    with torch.no_grad(), ablate(model, "1.0", to=mean):
        got = model(given)
    assert torch.equal(got[..., :4], mean.reference["second"][0].float().expand(2, 5, 4))


def test_a_replacement_of_ones_own():
    model, given = Split(fused), x()
    with torch.no_grad():
        plain = model(given)
        with ablate(model, "0.1", to=lambda call, heads: 2 * call.output[:, heads]):
            got = model(given)
    assert torch.equal(got, plain * torch.tensor([1.0, 2.0]).repeat_interleave(4))


def test_even_attention_again_through_the_formula():
    # one head of a whole hand-written layer, beside the other head's dense formula
    model, given, calls = Split(by_hand).double(), x().double(), []
    with torch.no_grad(), watch(model, calls.append), ablate(model, "0.0", to=Uniform()):
        got = model(given)
    (call,) = calls
    weights = dense(call.q, call.k, call.scale, call.visible)
    torch.testing.assert_close(got[..., 4:], (weights @ call.v)[:, 1], atol=1e-12, rtol=0)
