"""FlexAttention gives what the blocks give, for every mask, on a CPU and forward only."""

import pytest
import torch

from headwise.core import Causal, Documents, Explicit, Mask, Padding, Prefix, SlidingWindow, attention
from headwise.core.flexible import flexible_attention, is_flexible, takes, tiles_of
from headwise.layers import ALiBi, Rotary

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


OTHER_LENGTHS = [(name, queries) for name in ("window", "causal and padding") for queries in (1, KEYS)]


@pytest.mark.parametrize(("name", "queries"), [(name, 20) for name in MASKS] + OTHER_LENGTHS)
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


@pytest.mark.parametrize("rows_share", [True, False])
def test_alibi_says_its_bias_for_one_score(rows_share):
    q, k, v = inputs(20)
    alibi = ALiBi(HEADS)  # slopes of 4 heads are powers of two, exact in float32
    at_keys = torch.arange(KEYS)[None] + (torch.tensor([[5]]) if rows_share else torch.tensor([[5], [900]]))
    at_queries = at_keys[:, -20:]
    bias = alibi.bias(q, k, at_queries, at_keys, None)
    change = alibi.score_change(at_queries, at_keys)
    found = flexible_attention(q, k, v, mask=Causal(), score_change=change)
    torch.testing.assert_close(found, attention(q, k, v, mask=Causal(), bias=bias), **CLOSE)


def test_what_is_flexible():
    change = ALiBi(HEADS).score_change(torch.arange(3), torch.arange(3))
    assert is_flexible(Causal() & Padding(KEEP), object(), change, plain=True)
    assert not is_flexible(Causal(), object(), None, plain=True)  # the bias is not said for one score
    assert not is_flexible(Causal(), None, None, plain=False)
    assert not is_flexible(Mask(), None, None, plain=True)
    assert Rotary().score_change(torch.arange(3), torch.arange(3)) is None


def test_tiles_out_of_reach_are_skipped():
    tiles = tiles_of(Causal() & SlidingWindow(64), 1024, 1024, torch.device("cpu"))
    assert tiles.kv_num_blocks.flatten().tolist() == [1, 2, 2, 2, 2, 2, 2, 2]
    assert tiles.kv_indices[0, 0, 3, :2].tolist() == [2, 3]


def test_a_mask_that_is_not_said_for_one_score_is_refused():
    with pytest.raises(NotImplementedError, match="Mask is not said for one score at a time"):
        tiles_of(Mask(), 4, 4, torch.device("cpu"))


def test_what_flexible_attention_cannot_take():
    x = torch.zeros(1, 1, 3, 16)
    assert takes(x, x, x)
    assert not takes(x[:, :, :0], x, x)
    assert not takes(x, x[:, :, :0], x[:, :, :0])
    assert not takes(x.double(), x.double(), x.double())
    told = []
    torch.vmap(lambda each: told.append(takes(each, each, each)) or each)(x[None])
    torch.func.vjp(lambda each: told.append(takes(each, x, x)) or each, x)
    assert told == [False, False]
