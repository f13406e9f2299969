"""Right caches with encodings that need to know what came before, for faulty and for sound tables."""

import torch

from headwise.check import cache
from tests.faults.parts import HEAD_DIM, Layer, Steps, alibi, back, vectors


def stepped(wrong, right=Steps, window=None):
    """A stepper that forgets something, beside the right one, which takes all at once."""

    def check(dtype):
        layer = Layer(dtype)
        settings = () if window is None else (window,)
        return cache(
            lambda x: right(layer, *settings)(x),
            lambda: wrong(layer, *settings),
            vectors(dtype),
            window=window,
        )

    return check


class WithALiBi(Steps):
    def turned(self, q, k):
        return q, k

    def bias(self, queries, keys):
        return alibi(queries, keys, self.first)


class WithTable(Steps):
    """A learned bias for each distance up to 7, as in T5."""

    table = torch.linspace(3, -3, 8)

    def turned(self, q, k):
        return q, k

    def bias(self, queries, keys):
        return self.table[back(queries, keys, self.first).clamp(0, 7)]


class WithGates(Steps):
    """Scores fall with the sum of gates between the key and the query."""

    sums = None

    def turned(self, q, k):
        gates = -q.float()[..., 0].abs()
        before = 0.0 if self.sums is None else self.sums[..., -1:]
        new = gates.cumsum(-1) + before
        self.sums = new if self.sums is None else torch.cat([self.sums, new], -1)
        return q, k

    def bias(self, queries, keys):
        return self.sums[..., -queries:, None] - self.sums[..., None, :]


class WithDecay(Steps):
    """xPos: queries grow and keys shrink with their positions, about a centre that cancels."""

    decay = torch.linspace(0.3, 0.95, HEAD_DIM // 2).repeat(2)

    def centre(self, length):
        return 0.0

    def powers(self, length):
        return self.positions(length)

    def turned(self, q, k):
        length = q.shape[2]
        q, k = super().turned(q, k)
        power = (self.powers(length) - self.centre(length))[:, None] / 3
        return (q.float() * self.decay**power).to(q), (k.float() * self.decay**-power).to(k)
