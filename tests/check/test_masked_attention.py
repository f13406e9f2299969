"""What a mask means, what becomes of a query that sees nothing, the scale, the order of heads."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as fused

from headwise.check import empty_rows, kv_order, polarity, scale


def weights(q, k, mask=None, by=None):
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if by is None else by)
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)


def by_hand(q, k, v, mask=None):
    return weights(q, k, mask) @ v


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_right_attention_passes(dtype):
    assert polarity(fused, dtype=dtype).passed
    assert polarity(lambda q, k, v, m: fused(q, k, v, ~m), true_means="hidden", dtype=dtype).passed
    assert empty_rows(fused, dtype=dtype).passed
    assert scale(fused, dtype=dtype).passed
    assert kv_order(lambda q, k, v: fused(q, k, v, enable_gqa=True), dtype=dtype).passed


@pytest.mark.parametrize(
    ("attend", "words"),
    [
        (lambda q, k, v, m: by_hand(q, k, v, ~m), "True hides instead of showing: query 0 of 3 reads the"),
        (lambda q, k, v, m: by_hand(q, k, v), "the mask has no effect: query"),
        (lambda q, k, v, m: by_hand(q, k, v, m.mT), "the mask's axes are swapped: query 0 of 3 reads the"),
        (lambda q, k, v, m: (weights(q, k) * m) @ v, "the mask does something else: query"),
        (lambda q, k, v, m: (weights(q, k, m) * torch.nan) @ v, "query 0 of 3 gets not-a-number"),
        (
            lambda q, k, v, m: (q @ k.mT / 4 - 1e4 * ~m).softmax(-1) @ v,
            "the mask hides too little beside a visible score of -20,000: query 0 of 3 reads the hidden key",
        ),
    ],
)  # fmt: skip
def test_what_the_mask_does_is_named(attend, words):
    report = polarity(attend)
    assert report.verdict == "fails"
    assert words in report.failing


def test_policies_for_queries_that_see_nothing():
    def lowest(q, k, v, mask):
        return (q @ k.mT).masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1) @ v

    assert empty_rows(lowest, policy="mean").passed
    assert empty_rows(lowest, policy="finite").passed
    assert empty_rows(lowest).failing.startswith(
        "with one query that sees no key, query 2 of batch row 0 gets 1.1"
    )


def test_not_a_number_forward_or_backward():
    def backward(q, k, v, mask):
        scores = q @ k.mT + torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        return torch.where(mask.any(-1, keepdim=True), scores.softmax(-1), 0.0) @ v

    assert "gets not-a-number, not zeros" in empty_rows(by_hand).failing
    assert "the gradient of q is not-a-number" not in empty_rows(by_hand).failing
    assert "the gradient of q at place 2 of batch row 0 is not-a-number" in empty_rows(backward).failing


def test_neighbours_of_an_empty_row():
    def clumsy(q, k, v, mask):
        visible = mask | ~mask.any(-1, keepdim=True)
        out = fused(q, k, v, visible).masked_fill(~mask.any(-1, keepdim=True), 0.0)
        return out * 1.1 if not mask.any(-1).all() else out

    failing = empty_rows(clumsy).failing
    assert "which sees keys, gets an answer that is" in failing


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (lambda q: 1.0, "scores are not scaled: the factor is 1 at head_dim 16, not 0.25"),
        (lambda q: 1 / q.shape[-1], "scores are scaled twice: the factor is 0.0625"),
        (lambda q: q.shape[-1] ** 0.5, "multiplied by sqrt(head_dim), not divided: the factor is 4"),
        (lambda q: (q.shape[1] * q.shape[-1]) ** -0.5, "divided by sqrt(model_dim): the factor is 0.1443"),
        (lambda q: q.shape[1] ** -0.5, "divided by sqrt(heads): the factor is 0.5774"),
        (lambda q: 0.1, "scores have another scale: the factor is 0.1 at head_dim 16"),
    ],
)
def test_a_wrong_scale_is_named(by, words):
    assert words in scale(lambda q, k, v: weights(q, k, by=by(q)) @ v).failing


def test_another_scale_may_be_meant():
    assert scale(lambda q, k, v: weights(q, k, by=1.0) @ v, expected=lambda head_dim: 1.0).passed


def test_tiled_heads_may_be_meant():
    def tiled(q, k, v):
        return by_hand(q, *(x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v)))

    assert kv_order(tiled, expected="tiled").passed
    assert kv_order(tiled).failing.endswith("where block order gives 0; all are in tiled order")
    mixed = kv_order(lambda q, k, v: by_hand(q, k.repeat_interleave(3, 1), v.repeat(1, 3, 1, 1)))
    assert mixed.failing.startswith("query head 1 reads the values of kv head 1")


def test_what_cannot_be_asked_is_not_checked():
    def only_two(q, k):
        return q

    for check in (polarity, empty_rows, scale, kv_order):
        report = check(only_two)
        assert report.verdict == "not checked"
        assert "it raises TypeError" in report.failing
        assert report.cause.startswith("Pass a callable that takes q")
    assert scale(lambda q, k, v: (q, None)).failing == "it gives tuple where a tensor was asked for"
