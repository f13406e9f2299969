"""FlexAttention gives what the blocks give, for every mask, on a CPU and forward only."""

import pytest
import torch

from headwise.core import Causal, Documents, Explicit, Mask, Padding, Prefix, SlidingWindow, attention
from headwise.core.flexible import flexible_attention, tiles_of

ROWS, HEADS, KEYS = 2, 4, 150  # more than a tile
KEEP = torch.arange(KEYS) >= torch.tensor([[0], [KEYS - 20]])
IDS = (torch.arange(KEYS) // 40)[None].expand(ROWS, -1)
PAIRS = torch.rand(KEYS, KEYS, generator=torch.Generator().manual_seed(2)) > 0.5
MASKS = {
    "none": None,
    "causal": Causal(),
    "window": Causal() & SlidingWindow(5),
    "both ways": SlidingWindow(3, ahead=2),
    "prefix": Prefix(130),
    "padding": Padding(KEEP),
    "one row of padding": Padding(KEEP[1:]),
    "causal and padding": Causal() & Padding(KEEP),  # some queries see no key
    "documents": Documents(IDS),
    "explicit": Explicit(PAIRS),
    "explicit for heads": Explicit(PAIRS.expand(1, HEADS, KEYS, KEYS)),
}
# sums of at most 150 terms of about 1 in another order
CLOSE = {"rtol": 0.0, "atol": 150 * torch.finfo(torch.float64).eps}


def inputs(queries, kv_heads=HEADS):
    shapes = (ROWS, HEADS, queries, 16), (ROWS, kv_heads, KEYS, 16), (ROWS, kv_heads, KEYS, 16)
    return [torch.randn(*shape, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("queries", [1, 20, KEYS])
@pytest.mark.parametrize("name", MASKS)
def test_every_mask(name, queries):
    q, k, v = inputs(queries)
    found = flexible_attention(q, k, v, mask=MASKS[name])
    torch.testing.assert_close(found, attention(q, k, v, mask=MASKS[name]), **CLOSE)


def test_grouped_heads_a_scale_and_a_bias():
    q, k, v = inputs(20, kv_heads=2)
    bias = torch.randn(1, HEADS, 20, KEYS, dtype=torch.float64)
    kwargs = {"mask": Causal(), "scale": 0.4}
    found = flexible_attention(q, k, v, score_change=lambda s, b, h, i, j: s + bias[0, h, i, j], **kwargs)
    torch.testing.assert_close(found, attention(q, k, v, bias=bias, **kwargs), **CLOSE)


def test_tiles_out_of_reach_are_skipped():
    tiles = tiles_of(Causal() & SlidingWindow(64), 1024, 1024, torch.device("cpu"))
    assert tiles.kv_num_blocks.flatten().tolist() == [1, 2, 2, 2, 2, 2, 2, 2]
    assert tiles.kv_indices[0, 0, 3, :2].tolist() == [2, 3]


def test_a_mask_that_is_not_said_for_one_score_is_refused():
    with pytest.raises(NotImplementedError, match="Mask is not said for one score at a time"):
        tiles_of(Mask(), 4, 4, torch.device("cpu"))
