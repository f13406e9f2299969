"""Latent attention with a cache: one tensor is stored, keys and values are read from it."""

import pytest
import torch

from headwise.core import Causal, Padding, SlidingWindow
from headwise.layers import FixedCache, MultiHeadLatentAttention
from tests.layers.cache.stepping import CACHES, stepped
from tests.layers.encodings import words

ROUNDING = {"rtol": 0.0, "atol": 1e-12}  # as in test_same_as_whole


def build(mask):
    layer = MultiHeadLatentAttention(8, 2, kv_rank=6, head_dim=4, rotary_dim=2, value_dim=3, mask=mask)
    return layer.double().eval()


@pytest.mark.parametrize("chunks", [[1] * 9, [4, 1, 3, 1], [9]])
@pytest.mark.parametrize("kind", CACHES)
@torch.no_grad()
def test_chunks_give_what_the_whole_gives(kind, chunks):
    layer, x = build(SlidingWindow(3)), words(2, 9, 8)
    torch.testing.assert_close(stepped(layer, x, chunks, CACHES[kind]()), layer(x), **ROUNDING)


@torch.no_grad()
def test_padded_rows_go_on_as_each_alone():
    layer, cache, row = build(Causal()), CACHES["growing"](), words(1, 4, 8)
    keep = torch.tensor([[False, True, True], [True, True, True]])
    layer(
        torch.cat((torch.cat((words(1, 1, 8), row[:, :2]), 1), words(1, 3, 8))),
        mask=Padding(keep),
        cache=cache,
    )
    output = layer(torch.cat((row[:, 2:3], words(1, 1, 8))), cache=cache)
    torch.testing.assert_close(output[:1], layer(row[:, :3])[:, 2:], **ROUNDING)


@torch.no_grad()
def test_a_token_takes_the_room_of_its_latent():
    cache = FixedCache(10)
    build(Causal())(words(3, 4, 8), cache=cache)
    assert cache.nbytes == 10 * (3 * (6 + 2) * 8 + 8)  # and one position for all rows


@torch.no_grad()
def test_eight_bits_do_for_latents_too():
    """Off by half a step of each latent, so not equal, and near: the scale has 127 steps to the largest."""
    layer, x = build(Causal()), words(1, 6, 8)
    off = (stepped(layer, x, [1] * 6, FixedCache(6, bits=8)) - layer(x)).abs().max()
    assert 0 < off < 0.1 * layer(x).abs().max()
