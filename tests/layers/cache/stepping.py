"""Layers with a cache, stepped through a sequence in chunks."""

import torch

from headwise.layers import FixedCache, KVCache, RingCache
from tests.layers.encodings import ENCODINGS

CACHEABLE = [name for name in ENCODINGS if ENCODINGS[name](8, 2).cacheable]
REFUSED = [name for name in ENCODINGS if name not in CACHEABLE]
MOST = 32  # tokens in any test's sequence

# name: a fresh cache for a layer whose window is 3
CACHES = {
    "growing": KVCache,
    "fixed": lambda: FixedCache(MOST),
    "static": lambda: FixedCache(MOST, static=True),
    "ring": lambda: RingCache(3),
    "ring with spare": lambda: RingCache(3, spare=2),
}
# every encoding once, and every kind of cache with several of them
PAIRS = [(name, list(CACHES)[number % len(CACHES)]) for number, name in enumerate(CACHEABLE)]
WITHOUT_WINDOW = [name for name in CACHES if "ring" not in name]


@torch.no_grad()
def stepped(layer, x, chunks, cache, keep=None, **kwargs):
    """The outputs of all chunks side by side."""
    outputs, first = [], 0
    for size in chunks:
        outputs.append(layer(x[:, first : first + size], cache=cache, **kwargs))
        first += size
    assert first == x.shape[1]
    return torch.cat(outputs, dim=1)
