"""Windows and rings: keys counted wrongly, and places in a ring taken for places in the sequence."""

from headwise.check import receptive_field
from tests.faults.fault import Fault
from tests.faults.parts import WINDOW, Layer, Steps, attend, back, vectors
from tests.faults.steppers import stepped


def windowed(visible, window=WINDOW, causal=True):
    """A layer whose queries see the keys so far behind them; it claims a window."""

    def check(dtype):
        layer = Layer(dtype)

        def f(x):
            return layer.merge(attend(*layer.project(x), visible(back(x.shape[1], x.shape[1]))))

        return receptive_field(f, vectors(dtype), window=window, causal=causal)

    return check


class ShortRing(Steps):
    """Keeps the last W - 1 keys, the new one included."""

    def __call__(self, chunk):
        if self.keys is not None:
            self.keys, self.values = self.keys[:, :, 2 - WINDOW :], self.values[:, :, 2 - WINDOW :]
        return super().__call__(chunk)

    def visible(self, queries, keys):
        behind = back(queries, keys, keys - queries)
        return (behind >= 0) & (behind < self.window)


class EarlyTrim(Steps):
    """Trims to W keys before the chunk is answered, though its first queries need older ones."""

    def visible(self, queries, keys):
        visible = super().visible(queries, keys)
        if self.first:
            visible[:, : max(keys - self.window, 0)] = False
        return visible


class SlotsForPositions(Steps):
    """The ring is trimmed, but the window is counted from its first slot as if nothing was dropped."""

    def __call__(self, chunk):
        if self.keys is not None:
            self.keys, self.values = self.keys[:, :, 1 - WINDOW :], self.values[:, :, 1 - WINDOW :]
        return super().__call__(chunk)


class CausalFromTheCorner(Steps):
    """The mask is built from row and column numbers, so a later chunk sees the first keys only."""

    def visible(self, queries, keys):
        return back(queries, keys) >= 0


def far(behind):
    return (behind >= 0) & (behind <= WINDOW)


def near(behind):
    return (behind >= 0) & (behind < WINDOW - 1)


def both_ways(behind):
    return behind.abs() <= WINDOW


def minus_one_as_size(behind):
    return (behind >= 0) & (behind <= abs(-1))


FAULTS = [
    Fault("window of W + 1 keys", "receptive field", "attention-gym sliding_window", windowed(far)),
    Fault("window of W - 1 keys", "receptive field", "TransformerEngine#1212", windowed(near)),
    Fault(
        "two-sided window of 2 W + 1 keys",
        "receptive field",
        "transformers masking_utils",
        windowed(both_ways, causal=False),
    ),
    Fault(
        "no window, -1, taken for a size",
        "receptive field",
        "flash-attention#2251",
        windowed(minus_one_as_size, window=None),
    ),
    Fault("ring a key short", "cache", "mlx-lm 0347b6a7", stepped(ShortRing, window=WINDOW)),
    Fault(
        "ring trimmed before the chunk is answered", "cache", "mlx-lm#1673", stepped(EarlyTrim, window=WINDOW)
    ),
    Fault(
        "slots of a ring taken for positions",
        "cache",
        "litgpt#2145",
        stepped(SlotsForPositions, window=WINDOW),
    ),
    Fault(
        "causal from the top-left corner", "cache", "keras and flax attention", stepped(CausalFromTheCorner)
    ),
]
