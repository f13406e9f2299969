"""Hand-written product, softmax, product: seen where it is attention, and only there."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.look import watch
from tests.look.models import Split, Stack, by_einsum, by_hand, dense, seen

# float32 scores of a few units, exp and a sum of at most 6: 60 roundings of weights up to 1
EXACT = 60 * torch.finfo(torch.float32).eps


def softmaxes():
    yield "F.softmax", lambda scores: functional.softmax(scores, dim=-1)
    yield "torch.softmax", lambda scores: torch.softmax(scores, -1)
    yield "Tensor.softmax", lambda scores: scores.softmax(3)
    yield "nn.Softmax", nn.Softmax(dim=-1)
    yield (
        "in float32",
        lambda scores: functional.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype),
    )


def products():
    yield "@", lambda x, y: x @ y
    yield "torch.matmul", torch.matmul
    yield "Tensor.matmul", lambda x, y: x.matmul(y)
    yield "bmm", lambda x, y: torch.bmm(x.flatten(0, 1), y.flatten(0, 1)).view(*x.shape[:3], y.shape[-1])
    yield "named arguments", lambda x, y: torch.matmul(x, other=y)


@pytest.mark.parametrize("softmax", dict(softmaxes()))
@pytest.mark.parametrize("product", dict(products()))
def test_every_spelling(softmax, product):
    multiply, normalize = dict(products())[product], dict(softmaxes())[softmax]

    def attend(q, k, v):
        weights.append(normalize(multiply(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])))
        return multiply(weights[-1], v)

    weights = []
    calls, coverage = seen(Stack(attend), torch.randn(2, 6, 8))
    assert [call.module for call in calls] == ["first", "second"]
    assert coverage.seen == {"softmax": 2}
    assert coverage.complete
    for call, want in zip(calls, weights[-2:], strict=True):
        assert (call.q.shape, call.scale, call.bias, call.visible) == ((2, 2, 6, 4), 0.5, None, None)
        torch.testing.assert_close(call.weights(), want, atol=EXACT, rtol=0)
        torch.testing.assert_close(call.weights().double(), dense(call.q, call.k, 0.5), atol=EXACT, rtol=0)


def test_a_causal_model_by_hand_is_a_mask_and_no_bias():
    calls, coverage = seen(Stack(by_hand), torch.randn(2, 6, 8))
    tril = torch.ones(6, 6).bool().tril()
    for call in calls:
        assert call.bias is None
        assert torch.equal(call.visible, tril.expand(2, 2, 6, 6))
        torch.testing.assert_close(
            call.weights().double(), dense(call.q, call.k, 0.5, tril), atol=EXACT, rtol=0
        )
    assert coverage.largest_difference <= EXACT


def test_an_einsum_in_another_layout():
    calls, coverage = seen(Stack(by_einsum), torch.randn(2, 6, 8))
    assert [call.q.shape for call in calls] == [(2, 2, 6, 4)] * 2
    assert [call.output.shape for call in calls] == [(2, 2, 6, 4)] * 2
    assert coverage.largest_difference <= EXACT
    torch.testing.assert_close(
        calls[0].weights().double(), dense(calls[0].q, calls[0].k, 1.0), atol=EXACT, rtol=0
    )


@pytest.mark.parametrize("how", ["bias", "softcap", "half", "added product"])
def test_what_is_done_to_the_scores_is_read_off_them(how):
    bias = torch.randn(1, 2, 6, 6)

    def attend(q, k, v):
        if how == "added product":
            flat = bias.expand(2, -1, -1, -1).flatten(0, 1)
            scores = torch.baddbmm(flat, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=0.3).view(2, 2, 6, 6)
        elif how == "softcap":
            scores = 2.0 * torch.tanh(q @ k.mT / 2.0)
        elif how == "half":
            q, k = q.bfloat16(), k.bfloat16()
            scores = (q @ k.mT * 0.5).float() + bias
        else:
            scores = q @ k.mT * 0.5
            scores += bias
        weights.append(scores.softmax(-1))
        return weights[-1] @ v

    weights = []
    calls, coverage = seen(Split(attend), torch.randn(2, 6, 8))
    torch.testing.assert_close(calls[0].weights(), weights[-1], atol=EXACT, rtol=0)
    assert coverage.largest_difference <= EXACT
    if how in ("bias", "added product"):
        torch.testing.assert_close(calls[0].bias, bias.expand(2, -1, -1, -1), atol=1e-5, rtol=0)
        assert calls[0].scale == (0.5 if how == "bias" else 0.3)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_between_softmax_and_values(training):
    model = Split(lambda q, k, v: functional.dropout((q @ k.mT).softmax(-1), 0.3, training) @ v)
    (call,), coverage = seen(model, torch.randn(2, 6, 8))
    assert call.dropout == (0.3 if training else 0.0)
    assert coverage.compared == (0 if training else 1)


def test_a_row_that_sees_nothing_is_nan_in_the_model_and_left_out_of_the_comparison():
    hidden = torch.zeros(6, 6).bool()
    hidden[2] = True
    model = Split(lambda q, k, v: (q @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ v)
    (call,), coverage = seen(model, torch.randn(2, 6, 8))
    assert call.output[:, :, 2].isnan().all()
    assert not call.weights()[:, :, 2].any()
    assert coverage.largest_difference <= EXACT


def test_learned_sinks_take_their_share():
    sink = torch.randn(2)

    def attend(q, k, v):
        scores = torch.cat((q @ k.mT * 0.5, sink.view(1, 2, 1, 1).expand(2, -1, 6, 1)), -1)
        scores = scores - scores.max(-1, keepdim=True).values
        weights.append(scores.softmax(-1)[..., :-1])
        return weights[-1] @ v

    weights = []
    (call,), coverage = seen(Split(attend), torch.randn(2, 6, 8))
    assert call.sinks.shape == (2, 2, 6, 1)
    torch.testing.assert_close(call.weights(), weights[-1], atol=EXACT, rtol=0)
    torch.testing.assert_close(
        call.at(torch.tensor([1, 3])).weights(), weights[-1][:, :, [1, 3]], atol=EXACT, rtol=0
    )
    assert coverage.largest_difference <= EXACT


def test_one_head_alone_is_a_batch_of_one_head():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(8, 4, bias=False) for _ in range(3))

        def forward(self, x):
            weights = (self.query(x) @ self.key(x).transpose(-2, -1) * 4**-0.5).softmax(-1)
            return weights @ self.value(x)

    (call,), _ = seen(Head(), torch.randn(3, 6, 8))
    assert call.q.shape == (3, 1, 6, 4)


def test_heads_folded_into_the_batch_are_unfolded_by_what_the_module_says():
    def attend(q, k, v):
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        return torch.bmm(torch.bmm(q, k.mT).softmax(-1), v).unflatten(0, (3, 2))

    (call,), _ = seen(Split(attend), torch.randn(3, 6, 8))
    assert call.q.shape == (3, 2, 6, 4)


def test_grouped_heads_as_two_axes():
    def attend(q, k, v):
        q = q.unflatten(1, (2, 2))
        k, v = k[:, ::2, None], v[:, ::2, None]
        return ((q @ k.mT).softmax(-1) @ v).flatten(1, 2)

    (call,), coverage = seen(Split(attend, heads=4), torch.randn(3, 6, 8))
    assert (call.heads, call.kv_heads) == (4, 2)
    assert coverage.largest_difference <= EXACT


def test_copies_taken_aside_do_not_lead_astray():
    def attend(q, k, v):
        scores = q @ k.mT
        aside.extend((scores.clone(), scores * 3.0))
        weights = (scores * 0.5).softmax(-1)
        aside.append(weights.clone())
        return weights @ v

    aside = []
    (call,), coverage = seen(Split(attend), torch.randn(2, 6, 8))
    assert (call.scale, call.bias, call.visible) == (0.5, None, None)
    assert coverage.complete


def test_scores_scaled_in_place():
    def attend(q, k, v):
        scores = q @ k.mT
        scores *= 0.5
        return scores.div_(2.0).softmax(-1) @ v

    (call,), _ = seen(Split(attend), torch.randn(2, 6, 8))
    assert (call.scale, call.bias) == (0.25, None)


def test_weights_of_some_keys_only_are_not_the_attention():
    model = Split(lambda q, k, v: (q @ k.mT).softmax(-1)[..., :3] @ v[:, :, :3])
    calls, coverage = seen(model, torch.randn(2, 6, 8))
    assert calls == []
    assert len(coverage.unseen) == 1


class FalseFriends(nn.Module):
    """A router, an output softmax, and a mixture of values by weights that are not of queries and keys."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(8, 8), nn.Parameter(torch.randn(8, 8))
        self.vocabulary = nn.Linear(8, 20)

    def forward(self, x):
        mixed = self.router(x).softmax(-1) @ self.experts
        mixed = torch.matmul(mixed, self.experts).softmax(-1) @ self.experts
        return self.vocabulary(mixed).softmax(-1)


def test_routers_and_output_softmaxes_are_not_attention():
    calls, coverage = seen(FalseFriends(), torch.randn(2, 6, 8))
    assert calls == []
    assert "no attention at all: 0 calls" in str(coverage)
    assert not coverage.complete


def test_weights_that_are_mixed_after_the_softmax_are_reported_not_seen():
    mix = torch.randn(2, 2)
    model = Split(lambda q, k, v: torch.einsum("bhij,hg->bgij", (q @ k.mT).softmax(-1), mix) @ v)
    calls, coverage = seen(model, torch.randn(2, 6, 8))
    assert calls == []
    assert coverage.unseen == {"the model: the softmax of its scores did not multiply values as it was": 1}


def test_an_attention_written_with_exp_is_reported_by_its_module():
    def attend(q, k, v):
        weights = (q @ k.mT).exp()
        return weights / weights.sum(-1, keepdim=True) @ v

    _, coverage = seen(Stack(attend), torch.randn(2, 6, 8))
    assert sorted(coverage.unseen) == [
        f"{name} (Split) ran and looks like attention, but made no call" for name in ("first", "second")
    ]


def test_gradients_flow_as_they_always_do():
    model, x = Stack(by_hand), torch.randn(2, 6, 8)
    model(x).sum().backward()
    plain = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with watch(model, lambda call: None):
        model(x).sum().backward()
    assert all(torch.equal(p.grad, want) for p, want in zip(model.parameters(), plain, strict=True))
