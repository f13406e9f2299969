"""Dropout, precision and paths with one classic fault each."""

import torch
from torch import nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from headwise.check import (
    Vectors,
    effect,
    evaluation,
    paths,
)
from tests.faults import formulas as right
from tests.faults.fault import Fault
from tests.faults.heads import attend
from tests.faults.inputs import heads


class Layer(nn.Module):
    """One head over a sequence, with a dropout on its weights."""

    def __init__(self, rate=0.3):
        super().__init__()
        self.rate = rate
        self.project = nn.Linear(8, 24)

    def drop(self, weights):
        return dropout(weights, self.rate, self.training)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return self.drop((q @ k.mT / 8**0.5).softmax(-1)) @ v


class AlwaysDrops(Layer):
    def drop(self, weights):
        return dropout(weights, self.rate)


class DropsInKernel(Layer):
    """The rate goes to the kernel whatever the mode."""

    def forward(self, x):
        q, k, v = self.project(x)[:, None].chunk(3, -1)
        return scaled_dot_product_attention(q, k, v, dropout_p=self.rate)[:, 0]


class DeterministicIgnored(Layer):
    def drop(self, weights, deterministic=False):
        return weights if deterministic else dropout(weights, self.rate)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return self.drop((q @ k.mT / 8**0.5).softmax(-1)) @ v


class NeverDrops(Layer):
    def drop(self, weights):
        return weights


class OwnGenerator(Layer):
    def __init__(self, rate=0.3):
        super().__init__(rate)
        self.calls = 0

    def drop(self, weights):
        if not self.training:
            return weights
        self.calls += 1
        generator = torch.Generator().manual_seed(self.calls)  # no seed reaches it
        keep = torch.rand(weights.shape, generator=generator) >= self.rate
        return weights * keep / (1 - self.rate)


def in_training(layer, drops):
    return lambda dtype: evaluation(layer().to(dtype), Vectors(8, dtype), drops=drops)


def cap_in_half_precision(dtype, cap=200.0):
    def scores_of(q, k):
        return 8.0 * (q @ k.mT).float()

    def low(q, k, v):
        scores = scores_of(q, k).bfloat16()
        return (cap * (scores / cap).tanh()).softmax(-1).to(v.dtype) @ v

    def wide(q, k, v):
        return (cap * (scores_of(q, k) / cap).tanh()).softmax(-1).to(v.dtype) @ v

    return paths({"eager": wide, "compiled": low}, heads(dtype, head_dim=64))


def causal_dropped_with_weights(dtype):
    def layer(q, k, v, need_weights):
        if need_weights:
            return attend(q, k, v)
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    ways = {
        "without weights": lambda q, k, v: layer(q, k, v, False),
        "with weights": lambda q, k, v: layer(q, k, v, True),
    }
    return paths(ways, heads(dtype))


def causal_dropped_in_a_backend(dtype):
    def forward(q, k, v, backend):
        causal = None if backend == "small" and q.shape[2] <= 32 else right.causal(q.shape[2], k.shape[2])
        return attend(q, k, v, causal)

    ways = {name: (lambda q, k, v, name=name: forward(q, k, v, name)) for name in ("reference", "small")}
    return paths(ways, heads(dtype))


def padding_breaks_the_fallback(dtype):
    def fused(q, k, v, keep):
        return scaled_dot_product_attention(q, k, v, keep & right.causal(q.shape[2], k.shape[2]))

    def fallback(q, k, v, keep):
        visible = right.causal(q.shape[2], k.shape[2]).expand(keep.shape)  # the mask's own shape
        return attend(q, k, v, keep & visible)

    def given(length):
        return (*heads(dtype)(length), torch.ones(2, 1, 1, length, dtype=torch.bool))

    return paths({"fused": fused, "with dropout": fallback}, given)


def axes_from_the_end(dtype):
    def over(x, axis):
        """Attend over that axis of [batch height width channels]."""
        order = [d for d in range(x.dim()) if d not in (axis, x.dim() - 1)]
        moved = x.permute(*order, axis if axis >= 0 else axis - 1, x.dim() - 1)  # counted twice from the end
        back = attend(moved, moved, moved)
        return back.sum((0, 1, 2))

    def given(length):
        return (torch.randn(2, length, 4, 8, generator=torch.Generator().manual_seed(0)).to(dtype),)

    return paths({"axis 1": lambda x: over(x, 1), "axis -3": lambda x: over(x, -3)}, given)


def override_dropped(dtype):
    def model(q, k, v, causal=None):
        flash = True
        if flash:
            return scaled_dot_product_attention(q, k, v)
        return attend(q, k, v, right.causal(q.shape[2], k.shape[2]) if causal else None)

    def with_it(q, k, v):
        return model(q, k, v, causal=True)

    return effect({"causal=True": (model, with_it)}, heads(dtype))


def unlimited_window_is_local(dtype):
    def windowed(q, k, v, window):
        apart = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
        return attend(q, k, v, (apart >= -window[0]) & (apart <= max(window[1], 0)) | (apart == 0))

    ways = {
        "no window": lambda q, k, v: attend(q, k, v),
        "window (-1, -1)": lambda q, k, v: windowed(q, k, v, (-1, -1)),
    }
    return paths(ways, heads(dtype))


class ForgetsCausal(torch.autograd.Function):
    """A kernel of its own, whose backward pass is that of full attention."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return attend(q, k, v, right.causal(q.shape[2], k.shape[2]))

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            return torch.autograd.grad(attend(*leaves), leaves, gradient)


def causal_forgotten_backward(dtype):
    def eager(q, k, v):
        return attend(q, k, v, right.causal(q.shape[2], k.shape[2]))

    return paths({"eager": eager, "fused": ForgetsCausal.apply}, heads(dtype))


def graph_cut(dtype):
    def cut(q, k, v):
        scores = torch.tensor((q @ k.mT / q.shape[-1] ** 0.5).tolist(), dtype=dtype)
        return scores.softmax(-1) @ v

    return paths({"eager": attend, "rebuilt": cut}, heads(dtype))


FAULTS = [
    Fault("dropout in evaluation", "evaluation", "timm#1978", in_training(AlwaysDrops, None)),
    Fault(
        "the rate goes to the kernel in evaluation",
        "evaluation",
        "pytorch#124464",
        in_training(DropsInKernel, True),
    ),
    Fault(
        "the deterministic flag ignored",
        "evaluation",
        "equinox bdc28d6",
        in_training(DeterministicIgnored, True),
    ),
    Fault("dropout never applied", "evaluation", "xformers 861493c5", in_training(NeverDrops, True)),
    Fault(
        "a generator that no seed reaches", "evaluation", "keras 17aa6084", in_training(OwnGenerator, True)
    ),
    Fault("the cap on scores in bfloat16", "paths", "nanochat 16788ee", cap_in_half_precision),
    Fault("not causal when weights are asked for", "paths", "pytorch#99282", causal_dropped_with_weights),
    Fault("not causal in one backend", "paths", "xformers#104", causal_dropped_in_a_backend),
    Fault(
        "a padding mask breaks the fallback",
        "paths",
        "flax nnx dot_product_attention",
        padding_breaks_the_fallback,
    ),
    Fault("not causal backward", "paths", "triton#4541", causal_forgotten_backward),
    Fault("the graph cut between scores and queries", "paths", "aprender#2203", graph_cut),
    Fault("axes counted from the end", "paths", "keras 18f79d69", axes_from_the_end),
    Fault("a window without limits is local", "paths", "flash-attention#2251", unlimited_window_is_local),
    Fault("an override the fused path does not get", "effect", "x-transformers Attend", override_dropped),
]
