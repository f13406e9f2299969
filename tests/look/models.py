"""Small attention models of every style, and the run of a model with and without a watcher."""

import math
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional

from headwise.look import watch


def exact(first, second):
    """The same numbers in the same places, NaN included."""
    return torch.equal(first.nan_to_num(nan=7.0), second.nan_to_num(nan=7.0))


def seen(model, *inputs, grad=False, **options):
    """The calls and the coverage of one run, whose output must be the unwatched one to the last bit."""
    calls = []
    with nullcontext() if grad else torch.no_grad():
        torch.manual_seed(1)
        plain = model(*inputs, **options)
        torch.manual_seed(1)
        with watch(model, calls.append, verify=True) as coverage:
            watched = model(*inputs, **options)
    for first, second in zip(leaves(plain), leaves(watched), strict=True):
        assert exact(first, second)
    return calls, coverage


def leaves(output):
    """Every tensor of an output, in order."""
    return [x for x in torch.utils._pytree.tree_leaves(output) if isinstance(x, torch.Tensor)]


class Split(nn.Module):
    """Projects to queries, keys and values of two heads, and leaves what comes then to ``attend``."""

    def __init__(self, attend, width=8, heads=2):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.attend, self.n_head = attend, heads

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_head, -1)).permute(2, 0, 3, 1, 4)
        return self.attend(q, k, v).transpose(1, 2).flatten(2)


class Stack(nn.Module):
    """Two attention modules, one after the other."""

    def __init__(self, attend):
        super().__init__()
        self.first, self.second = Split(attend), Split(attend)

    def forward(self, x):
        return self.second(x + self.first(x))


def fused(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return functional.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1) @ v


def by_einsum(q, k, v):
    """In the layout of the query, key and value of other libraries: batch length heads dim."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    weights = torch.einsum("b i h d, b j h d -> b h i j", q * 0.5, k).softmax(dim=-1)
    return torch.einsum("b h i j, b j h d -> b i h d", weights, v).transpose(1, 2)


def dense(q, k, scale, visible=None, bias=None):
    """Expected probabilities: the formula in float64, zeros where nothing is visible."""
    group = q.shape[1] // k.shape[1]
    scores = scale * torch.einsum("bhid,bhjd->bhij", q.double(), k.double().repeat_interleave(group, 1))
    scores = scores if bias is None else scores + bias.double()
    scores = scores if visible is None else scores.masked_fill(~visible, -torch.inf)
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    numbers = (scores - top).exp()
    return numbers / numbers.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
