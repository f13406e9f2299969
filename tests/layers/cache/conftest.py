"""Memory as tight as it gets, so that short sequences reach its end again and again."""

import pytest

from headwise.layers.cache import kv_cache, ring_cache

AS_BUILT = ("test_cost_of_a_step", "test_compiled")


@pytest.fixture(autouse=True)
def _tight(request, monkeypatch):
    if request.module.__name__.split(".")[-1] not in AS_BUILT:
        monkeypatch.setattr(kv_cache, "_ROOM", 1)
        monkeypatch.setattr(ring_cache, "_SLACK", 1)
