"""What holds of any attention map: shapes, masks and scales drawn by hypothesis."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core import AttentionMap
from tests.core import maps
from tests.core.test_attention_map import check_everything

sizes = st.integers(1, 40)
kinds = st.sampled_from(maps.KINDS_AND_MASKS)
dtypes = st.sampled_from([torch.float64, torch.float32, torch.bfloat16])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(kind_and_mask=kinds, queries=sizes, keys=sizes, dtype=dtypes, larger=st.floats(0.1, 8.0))
def test_every_reading_of_any_map(kind_and_mask, queries, keys, dtype, larger):
    q, k, kwargs, visible = maps.make(*kind_and_mask, queries, keys, dtype)
    check_everything(q * larger, k, kwargs, visible, dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(kind_and_mask=kinds, queries=sizes, keys=sizes, bins=st.integers(1, 50))
def test_sums_agree(kind_and_mask, queries, keys, bins):
    """What the rows give is what the keys receive, what distances hold, and what an overview shows."""
    q, k, kwargs, _ = maps.make(*kind_and_mask, queries, keys)
    p = AttentionMap(q, k, **kwargs)
    given_away = (p @ torch.ones(1, 1, keys, 1))[..., 0]
    assert (given_away <= 1 + 1e-12).all()
    if "sinks" not in kwargs:
        assert (((given_away - 1).abs() < 1e-12) | (given_away == 0)).all()
    total, found = given_away.sum(-1), p.statistics(bins=bins)
    for same in (found.received.sum(-1), found.distance.histogram.sum(-1) * queries):
        torch.testing.assert_close(same, total, rtol=0, atol=1e-10)
    if bins >= queries:
        torch.testing.assert_close(found.pool.sum(-1), given_away, rtol=0, atol=1e-12)
