"""A recorded run beside the plain statistics of dense probabilities: how far each is from the other."""

from contextlib import contextmanager

import numpy as np
import torch

from headwise.look import record
from headwise.look.recordings.sums import STATISTICS
from tests.look import plainly
from tests.look.models import exact, leaves

CLOSE = 1e-4  # the project's own bound, on weights as they are and on the rest relatively
ON_WEIGHTS = ("confidence", "self", "previous", "next", "first", "special")


@contextmanager
def on_fused_kernels(network):
    """A Hugging Face network that was opened as eager, for a while with the fused kernel."""
    network.set_attn_implementation("sdpa")
    try:
        yield network
    finally:
        network.set_attn_implementation("eager")


@torch.no_grad()
def recorded(model, *inputs, rows=None, special=(), seed=0, keep=None, **options):
    """The recording of one run, whose output must be the one without to the last bit."""
    plain = model(*inputs, **options)
    with record(model, rows=rows, special=special, seed=seed, keep=keep) as recording:
        watched = model(*inputs, **options)
    for first, second in zip(leaves(plain), leaves(watched), strict=True):
        assert exact(first, second)
    return recording


def differences(layer, texts):
    """The largest difference of each statistic of a layer from the plain one, relative but for weights."""
    found = {}
    for statistic in STATISTICS:
        found[statistic] = _apart(
            layer.sums.mean(statistic), plainly.mean(texts, statistic), statistic not in ON_WEIGHTS
        )
    received, could = plainly.received(texts)
    found["received"] = _apart(layer.sums.received, received, relative=True)
    found["could"] = _apart(layer.sums.could, could)
    overview, rows = plainly.overview(texts)
    found["overview"] = _apart(layer.sums.overview, overview, relative=True)
    found["overview rows"] = _apart(layer.sums.overview_rows, rows)
    if texts[0].place is not None:
        found["by distance"] = _apart(layer.sums.by_distance(), plainly.by_distance(texts))
    return found


def check(layer, texts):
    """Refuse a layer whose statistics are not the plain ones."""
    for statistic, difference in differences(layer, texts).items():
        assert difference <= CLOSE, (layer.name, statistic, difference)


def _apart(found, wanted, relative=False):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return np.inf
    size = np.maximum(np.nanmax(np.abs(wanted), initial=0.0), 1e-6) if relative else 1.0
    return float(np.nanmax(np.abs(found - wanted), initial=0.0) / size)
