"""A step touches its own token: it copies no cache and builds no mask larger than its scores."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise.core import Causal, Padding, SlidingWindow
from headwise.layers import ALiBi, FixedCache, KVCache, MultiHeadAttention, RingCache, Rotary

PAST, HEADS, HEAD_DIM = 2048, 4, 32
SCORES = HEADS * (PAST + 2)  # of the query that is measured, the second after the prompt
VIEWS = (
    "aten.narrow",
    "aten.slice",
    "aten.transpose",
    "aten.view",
    "aten._unsafe_view",
    "aten.unsqueeze",
    "aten.expand",
    "aten.select",
    "aten.permute",
    "aten.detach",
    "aten.alias",
    "aten.t.",
    "aten._reshape_alias",
    "aten.squeeze",
)


class Made(TorchDispatchMode):
    """Notes how many numbers the operations make that are no views, and the largest of them."""

    def __init__(self):
        super().__init__()
        self.sizes, self.names = [], []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        if not str(operation).startswith(VIEWS):
            for leaf in tree_leaves(made):
                if isinstance(leaf, torch.Tensor):
                    self.sizes.append(leaf.numel())
                    self.names.append((leaf.numel(), str(operation)))
        return made


CASES = {
    "growing": (Rotary(), Causal(), KVCache),
    "fixed": (Rotary(), Causal(), lambda: FixedCache(PAST + 8)),
    "ring": (Rotary(), SlidingWindow(PAST // 2), lambda: RingCache(PAST // 2)),
    "growing, window": (Rotary(), SlidingWindow(PAST // 16), KVCache),
}


def filled(position, mask, cache, padded=False):
    layer = MultiHeadAttention(HEADS * HEAD_DIM, HEADS, kv_heads=2, position=position, mask=mask).eval()
    x = torch.randn(1, PAST, HEADS * HEAD_DIM)
    keep = torch.ones(1, PAST, dtype=torch.bool)
    layer(x, mask=Padding(keep) if padded else None, cache=cache)
    layer(x[:, :1], cache=cache)  # what is made room for once
    return layer, x[:, :1]


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_step_makes_no_more_than_its_scores(case, padded):
    position, mask, make = CASES[case]
    cache = make()
    layer, token = filled(position, mask, cache, padded)
    with Made() as made:
        layer(token, cache=cache)
    assert max(made.sizes) <= SCORES, max(made.names)
    if not padded:  # no mask but a window's own: besides the kernel, only what belongs to the token
        assert sum(made.sizes) < 60 * HEADS * HEAD_DIM, sorted(made.names)[-5:]


@torch.no_grad()
def test_a_bias_costs_no_more_than_scores():
    cache = KVCache()
    layer, token = filled(ALiBi(HEADS), Causal(), cache)
    with Made() as made:
        layer(token, cache=cache)
    assert max(made.sizes) <= SCORES, max(made.names)


@torch.no_grad()
def test_growing_copies_each_token_a_few_times_in_all():
    """Room grows by a quarter: 1 + 4/5 + (4/5)^2 + ... = 5 writes for each token, and never more at once."""
    cache, token, moved = KVCache(), torch.zeros(1, 2, 1, 4), 0
    for _ in range(4000):
        before = cache._slots.tensors.get("k")
        cache.append(token, token)
        if cache._slots.tensors["k"] is not before:
            moved += len(cache)
    assert moved < 5 * 4000


@torch.no_grad()
def test_a_ring_moves_its_window_once_in_a_quarter_of_it():
    cache, token, moves = RingCache(400), torch.zeros(1, 2, 1, 4), 0
    most = 0
    for _ in range(4000):
        before = cache._slots.tensors.get("k")
        cache.append(token, token)
        moves += cache._slots.tensors["k"] is not before
        most = max(most, cache.nbytes)
    assert moves <= 4000 / 100 + 1
    assert most == 500 * (2 * 2 * 4 * 4 + 8) - (
        2 * 2 * 4 * 4 + 8
    )  # 399 + 100 slots of keys, values, positions


@pytest.mark.parametrize("spare", [0, 5])
def test_a_ring_gives_as_many_keys_as_its_window_has_and_as_it_says(spare):
    cache, held = RingCache(7, spare=spare), 0
    for length in (3, 1, 5, 1, 1, 20, 1, 2):
        k, announced = torch.zeros(1, 1, length, 2), cache.keys(length)
        assert announced == cache.append(k, k).k.shape[2] == min(held, 6) + length
        held += length


@torch.no_grad()
def test_a_long_prompt_does_not_stay_in_a_ring():
    cache = RingCache(8)
    long, token = torch.zeros(1, 2, 3000, 4), torch.zeros(1, 2, 1, 4)
    assert cache.append(long, long).k.shape[2] == 3000
    for _ in range(80):
        cache.append(token, token)
    assert cache.nbytes < 80 * 200
