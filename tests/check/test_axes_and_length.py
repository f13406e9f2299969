"""Grids whose height is not their width, and inputs longer than what was trained."""

import torch

from headwise import Learned, MultiHeadAttention, Rotary, Sinusoidal
from headwise.check import Tokens, Vectors, axes, length


def ramps(height, width, indexing="ij"):
    sizes = (height, width) if indexing == "ij" else (width, height)
    found = torch.meshgrid(*(torch.arange(size).float() for size in sizes), indexing=indexing)
    return torch.stack(found, -1)


def test_a_grid_of_rows_and_columns():
    assert axes(ramps, first="rows").passed
    assert axes(lambda h, w: ramps(h, w).flatten(0, 1), first="rows").passed
    assert axes(lambda h, w: ramps(h, w, "xy"), first="columns").passed


def test_what_is_confused_is_named():
    swapped = axes(lambda h, w: ramps(w, h).reshape(h * w, 2))
    assert (
        swapped.failing == "on a grid of 2 rows and 3 columns, channel 0 depends on the row and on the column"
    )
    assert swapped.figure >= 1
    order = axes(lambda h, w: ramps(h, w, "xy"), first="rows")
    assert "channel 0 follows the column, where the first half should follow the rows" in order.failing
    assert "no channel depends on the column" in axes(lambda h, w: ramps(h, w)[..., :1]).failing
    square = axes(lambda h, w: ramps(min(h, w), min(h, w)))
    assert (
        square.failing
        == "on a grid of 2 rows and 3 columns, it gives [2, 2, 2] where [6, channels] was asked for"
    )


def test_what_takes_squares_alone_fails_and_what_takes_no_grid_is_not_checked():
    def square(h, w):
        if h != w:
            raise ValueError("no square")
        return ramps(h, w)

    report = axes(square)
    assert report.verdict == "fails"
    assert "it raises ValueError (no square)" in report.failing
    report = axes(lambda h: h)
    assert report.verdict == "not checked"
    assert "it raises TypeError" in report.failing
    assert report.cause.startswith("Pass a callable that takes a height and a width")


def table_of(places, count=16):
    """Attention over a sum with a row of a table for each place."""
    table = torch.randn(count, 8, generator=torch.Generator().manual_seed(1))

    def f(x):
        x = x + table[places(torch.arange(x.shape[1]))]
        return (x @ x.mT / 8**0.5).softmax(-1) @ x

    return f


def test_silent_wraps_and_clamps():
    wrapped = length(table_of(lambda p: p % 16), Vectors(8), trained=16)
    assert wrapped.failing.startswith("position 16 is treated like position 0")
    clamped = length(table_of(lambda p: p.clamp(max=15)), Vectors(8), trained=16)
    assert clamped.failing.startswith("position 16 is treated like position 15")
    assert length(table_of(lambda p: p, count=32), Vectors(8), trained=16).passed


def test_crashes_and_refusals():
    crash = length(table_of(lambda p: p), Vectors(8), trained=16)
    assert "with 20 places it crashes with IndexError" in crash.failing
    layer = MultiHeadAttention(8, heads=2, position=Learned(16, 8)).eval()
    refused = length(layer, Vectors(8), trained=16)
    assert refused.passed
    assert "refused: HeadwiseError" in refused.tried


def test_what_goes_on_beyond_passes():
    for position in (Sinusoidal(), Rotary()):
        assert length(MultiHeadAttention(8, heads=2, position=position).eval(), Vectors(8), trained=16).passed


def test_where_order_has_no_effect_nothing_can_wrap():
    report = length(MultiHeadAttention(8, heads=2).eval(), Vectors(8), trained=16)
    assert report.passed
    assert "order has too little effect" in report.tried


def test_outputs_that_are_cut_or_lost():
    assert "with 20 places it gives 16" in length(lambda x: x[:, :16], Vectors(8), trained=16).failing
    lost = length(lambda x: x if x.shape[1] < 20 else x * torch.nan, Vectors(8), trained=16)
    assert "not-a-number" in lost.failing


def test_tokens_and_what_cannot_be_asked():
    embedding = torch.randn(50, 8)
    model = table_of(lambda p: p % 16)
    assert length(lambda ids: model(embedding[ids]), Tokens(50), trained=16).verdict == "fails"
    assert length(lambda x: 1 / 0, Vectors(8), trained=16).verdict == "not checked"
    assert length(lambda x: x.mean(), Vectors(8), trained=16).verdict == "not checked"
