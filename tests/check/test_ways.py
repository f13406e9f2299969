"""Paths that should agree, options that should matter, dropout in its place."""

import torch
from torch import nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from headwise import MultiHeadAttention
from headwise.check import Vectors, effect, evaluation, paths


def attend(x):
    return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x


def fused(x):
    return scaled_dot_product_attention(x, x, x)


def test_ways_that_agree():
    for dtype in (torch.float32, torch.bfloat16):
        assert paths({"eager": attend, "fused": fused}, Vectors(8, dtype)).passed


def test_the_pair_and_the_place_are_named():
    def wrong(x):
        return fused(x) + (torch.arange(x.shape[1]) == 7)[:, None]

    report = paths({"eager": attend, "fused": fused, "exported": wrong}, Vectors(8))
    assert "at length 8, " in report.failing
    assert "exported are 1 apart at [" in report.failing


def test_a_way_that_raises_alone_or_gives_another_shape():
    def bad(x):
        raise RuntimeError("no kernel\nand a long story")

    report = paths({"eager": attend, "fused": bad}, Vectors(8))
    assert report.failing == "at length 1, fused raises RuntimeError (no kernel), while eager answers"
    assert paths({"a": bad, "b": bad}, Vectors(8)).verdict == "not checked"
    assert "where [2, 1, 8] was asked" in paths({"a": attend, "b": lambda x: x[:1]}, Vectors(8)).failing
    assert paths({"a": attend}, Vectors(8)).verdict == "not checked"
    assert "inf apart" in paths({"a": attend, "b": lambda x: x * torch.nan}, Vectors(8)).failing


def test_gradients_are_compared_and_told():
    def detached(x):
        return (x @ x.detach().mT / x.shape[-1] ** 0.5).softmax(-1) @ x

    report = paths({"eager": attend, "fused": fused, "without": torch.no_grad()(attend)}, Vectors(8))
    assert report.passed
    assert report.tried.endswith("; gradients of eager, fused")
    report = paths({"eager": attend, "detached": detached}, Vectors(8))
    assert "at length 2, the gradients of eager and detached by input 0 are" in report.failing
    alone = paths({"a": torch.no_grad()(attend), "b": torch.no_grad()(fused)}, Vectors(8))
    assert alone.passed
    assert alone.tried.endswith("; no two of them pass gradients")


def test_gradients_by_parameters_that_the_ways_share():
    layer = nn.Linear(8, 8)

    def detached(x):
        return nn.functional.linear(x, layer.weight, layer.bias.detach())

    ways = {"plain": layer, "detached": detached}
    assert paths(ways, Vectors(8)).passed  # the inputs cannot tell
    report = paths(ways, Vectors(8), parameters=list(layer.parameters()))
    assert "by a parameter of shape [8] are" in report.failing


def test_what_cannot_be_differentiated_is_told_and_no_failure():
    class Stubborn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return attend(x)

    report = paths({"eager": attend, "for evaluation": Stubborn.apply}, Vectors(8))
    assert report.passed
    assert report.tried.endswith("; no two of them pass gradients")


def test_options():
    def refuses(x):
        raise ValueError("not here")

    report = effect({"causal": (attend, lambda x: x.cumsum(1)), "window": (attend, refuses)}, Vectors(8))
    assert report.passed
    assert report.figure > report.tolerance
    assert report.tried == "causal, window, of which refused: window"
    report = effect({"causal": (attend, fused), "bias": (attend, attend)}, Vectors(8))
    assert report.failing in ("causal and bias change nothing", "bias changes nothing")
    assert effect({"causal": (refuses, attend)}, Vectors(8)).failing.startswith(
        "without causal, it raises ValueError"
    )
    assert effect({}, Vectors(8)).verdict == "not checked"


def test_dropout_acts_in_training_alone():
    layer = MultiHeadAttention(8, heads=2, dropout=0.5)
    state = torch.get_rng_state()
    for dtype in (torch.float32, torch.bfloat16):
        assert evaluation(layer.to(dtype), Vectors(8, dtype), drops=True).passed
    assert layer.training
    assert torch.equal(state, torch.get_rng_state())
    assert evaluation(nn.Linear(8, 8), Vectors(8), drops=False).passed


def test_dropout_out_of_its_place():
    always = evaluation(lambda x: dropout(x, 0.5), Vectors(8))
    assert always.failing.startswith("two calls in evaluation are")
    never = evaluation(nn.Dropout(0.0), Vectors(8), drops=True)
    assert never.failing.endswith("two seeds give the same output, as in evaluation")
    claimed = evaluation(nn.Dropout(0.5), Vectors(8), drops=False)
    assert claimed.failing.startswith("training changes the output by")


def test_dropout_of_everything():
    class Renormalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            x = self.drop(x.exp())
            return x / x.sum(-1, keepdim=True)

    report = evaluation(Renormalised(), Vectors(64), drops=True)
    assert report.failing == "with a dropout rate of 1 the output is not finite"


def test_a_function_with_its_function_in_training():
    assert evaluation(attend, Vectors(8), training=lambda x: attend(dropout(x, 0.5)), drops=True).passed
    assert evaluation(attend, Vectors(8), training=attend, drops=True).verdict == "fails"
    assert evaluation(lambda x, y: x, Vectors(8)).verdict == "not checked"
