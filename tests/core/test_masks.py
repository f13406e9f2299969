"""Each mask against the oracle's rule, and its shortcuts against its own dense answer."""

import sys

import pytest
import torch

from headwise.core import AttentionMap, Causal, Documents, Explicit, Padding, Prefix, SlidingWindow, masks
from tests.core.cases import MASKS, SHAPES, dense, make_mask

every_mask = pytest.mark.parametrize("name", MASKS)
every_shape = pytest.mark.parametrize(("queries", "keys"), SHAPES)


def test_every_mask_has_a_case():
    made = {type(part).__name__ for name in MASKS for part in parts(make_mask(name, 3, 3)[0])}
    assert made == set(masks.__all__) - {"Mask", "Fused", "All"}


def parts(mask):
    return mask.masks if isinstance(mask, masks.All) else (mask,)


@every_mask
@every_shape
def test_visible_is_what_the_oracle_says(name, queries, keys):
    mask, expected = make_mask(name, queries, keys)
    assert torch.equal(dense(mask, queries, keys), expected)


@every_mask
@every_shape
def test_a_part_of_the_matrix_is_that_part_of_the_whole(name, queries, keys):
    mask, expected = make_mask(name, queries, keys)
    rows, columns = torch.arange(queries)[queries // 3 :], torch.arange(keys)[: keys // 2 + 1]
    part = mask.visible(rows + keys - queries, columns)
    part = part[:, 0] if part.dim() == 4 else part
    expected = expected[:, rows][:, :, columns]
    assert torch.equal(part.expand_as(expected), expected)


@every_mask
@every_shape
def test_reach_never_leaves_out_a_key_that_is_seen(name, queries, keys):
    mask, expected = make_mask(name, queries, keys)
    for first in range(queries):
        for last in range(first, queries):
            start, stop = mask.reach(keys - queries + first, keys - queries + last, keys)
            assert 0 <= start <= stop <= keys
            seen = expected[:, first : last + 1].any(dim=(0, 1)).nonzero().flatten().tolist()
            assert set(seen) <= set(range(start, stop))


@every_mask
@every_shape
def test_ranges_say_all_that_a_mask_does(name, queries, keys):
    mask, expected = make_mask(name, queries, keys)
    ranges = mask.ranges(torch.arange(keys - queries, keys), keys)
    if ranges is None:
        return
    starts, stops = (end[:, None] for end in ranges)
    assert (starts >= 0).all()
    assert (stops <= keys).all()
    slots = torch.arange(keys)
    assert torch.equal(((slots >= starts) & (slots < stops)).expand_as(expected), expected)


class EverySecond(SlidingWindow):
    """A user's mask, which says nothing but what it lets through."""

    def visible(self, query_slots, key_slots):
        even = (query_slots[:, None] - key_slots) % 2 == 0
        return super().visible(query_slots, key_slots) & even


def test_who_overrides_visible_inherits_nothing_that_would_contradict_it():
    slots = torch.arange(6)
    mask = EverySecond(6)
    assert mask.ranges(slots, 6) is None
    assert (mask & Causal()).ranges(slots, 6) is None
    assert mask.fused(6, 6) is None
    assert mask.reach(2, 2, 6) == (0, 6)
    assert (
        not AttentionMap(torch.randn(1, 1, 6, 2), torch.randn(1, 1, 6, 2), mask=mask)
        .statistics()
        .on_previous.any()
    )


def test_a_window_without_an_end():
    slots, far = torch.arange(-2, 3), sys.maxsize
    for mask, starts, stops in (
        (SlidingWindow(3, ahead=far), [0, 0, 0, 0, 0], [3, 3, 3, 3, 3]),
        (SlidingWindow(far, ahead=1), [0, 0, 0, 0, 0], [0, 1, 2, 3, 3]),
    ):
        assert [end.tolist() for end in mask.ranges(slots, 3)] == [starts, stops]


def test_what_has_ranges():
    slots, padding = torch.arange(3), Padding(torch.ones(1, 3, dtype=torch.bool))
    for mask in (Causal(), SlidingWindow(2, ahead=1), Prefix(2), Prefix(1) & SlidingWindow(2)):
        assert mask.ranges(slots, 3) is not None
    for mask in (padding, Causal() & padding, Explicit(torch.ones(3, 3, dtype=torch.bool))):
        assert mask.ranges(slots, 3) is None


@every_mask
@every_shape
def test_what_a_fused_kernel_is_told_means_the_same(name, queries, keys):
    """A kernel's causal flag counts from the top-left corner, its keep hides keys from every query."""
    mask, expected = make_mask(name, queries, keys)
    served = mask.fused(queries, keys)
    if served is None:
        return
    told = torch.ones(2, queries, keys, dtype=torch.bool)
    if served.causal:
        told &= torch.arange(keys) <= torch.arange(queries)[:, None]
    if served.keep is not None:
        told &= served.keep[:, None, :]
    assert torch.equal(told, expected)
    assert not (served.causal and served.keep is not None), "not every kernel takes both"


@pytest.mark.parametrize(
    ("mask", "queries", "served"),
    [
        (Causal(), 5, True),
        (Causal(), 1, True),
        (Causal(), 3, False),
        (SlidingWindow(5), 5, True),
        (SlidingWindow(4), 5, False),
        (SlidingWindow(5, ahead=1), 5, False),
        (Prefix(5), 3, True),
        (Prefix(4), 5, False),
        (Padding(torch.ones(1, 5, dtype=torch.bool)), 3, True),
        (Padding(torch.ones(1, 5, dtype=torch.bool)) & Causal(), 1, True),
        (Padding(torch.ones(1, 5, dtype=torch.bool)) & Causal(), 5, False),
        (Causal() & SlidingWindow(9), 5, True),
        (Documents(torch.zeros(1, 5, dtype=torch.int64)), 5, False),
    ],
    ids=str,
)
def test_the_fast_path_serves_what_it_can(mask, queries, served):
    assert (mask.fused(queries, keys=5) is not None) == served


def test_reach_is_narrow_where_it_can_be():
    assert Causal().reach(4, 7, 100) == (0, 8)
    assert SlidingWindow(3).reach(4, 7, 100) == (2, 8)
    assert SlidingWindow(3, ahead=2).reach(4, 7, 100) == (2, 10)
    assert Prefix(50).reach(4, 7, 100) == (0, 50)
    assert (SlidingWindow(3) & Prefix(50)).reach(4, 7, 100) == (2, 8)


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (Causal(), "causal"),
        (SlidingWindow(4), "the last 4 keys"),
        (SlidingWindow(4, ahead=3), "the last 4 keys and 3 ahead"),
        (Prefix(7), "causal after a prefix of 7"),
        (Padding(torch.tensor([[True, False], [True, True]])), "padding (1 of 4 left out)"),
        (Documents(torch.zeros(1, 2, dtype=torch.int32)), "within documents"),
        (Explicit(torch.eye(2, dtype=torch.bool)), "explicit (2 of 4 pairs visible)"),
        (Causal() & Prefix(2) & SlidingWindow(3), "causal & causal after a prefix of 2 & the last 3 keys"),
    ],
    ids=str,
)
def test_a_mask_says_what_it_is(mask, text):
    assert str(mask) == text


def test_a_combination_is_flat_in_any_grouping():
    """Who looks for one mask among several, as a cache does for padding, has to look in one list alone."""
    first, second, third = Causal(), SlidingWindow(4), Prefix(2)
    for combined in ((first & second) & third, first & (second & third)):
        assert combined.masks == (first, second, third)
    assert ((first & second) & (third & first)).masks == (first, second, third, first)


def test_masks_combine_in_any_grouping():
    a, b, c = Causal(), SlidingWindow(3), Prefix(2)
    left, right = (a & b) & c, a & (b & c)
    assert str(left) == str(right)
    assert torch.equal(dense(left, 5, 5), dense(right, 5, 5))


def test_positions_of_padded_rows_count_real_tokens_from_zero():
    keep = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 1, 1]], dtype=torch.bool)
    positions = Padding(keep).positions()
    assert [row[kept].tolist() for row, kept in zip(positions, keep, strict=True)] == [
        [0, 1],
        [0, 1, 2],
        [],
        [0, 1, 2],
    ]
    assert positions.min() == 0  # padding too has a position that every encoding knows
