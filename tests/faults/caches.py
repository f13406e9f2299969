"""Caches: what the second chunk is not told about the first."""

import torch

from headwise.check import cache
from tests.faults.fault import Fault
from tests.faults.parts import HEAD_DIM, Layer, PaddedSteps, Steps, alibi, back, turn, turn_by, vectors
from tests.faults.steppers import WithALiBi, WithDecay, WithGates, WithTable, stepped


class ALiBiFromTheFront(WithALiBi):
    def bias(self, queries, keys):
        return alibi(queries, keys)


class ALiBiLeftOut(WithALiBi):
    def bias(self, queries, keys):
        return None if self.first else alibi(queries, keys)


class TableWithoutOffset(WithTable):
    def bias(self, queries, keys):
        return self.table[back(queries, keys).clamp(0, 7)]


class GatesOfTheChunk(WithGates):
    """The sums start again with each chunk."""

    def turned(self, q, k):
        new = (-q.float()[..., 0].abs()).cumsum(-1)
        self.sums = new if self.sums is None else torch.cat([self.sums, new], -1)
        return q, k


class CentreMoves(WithDecay):
    """The centre is half the present length, and cached keys keep an older one."""

    def centre(self, length):
        return (self.first + length) // 2


class DecayOfTheChunk(WithDecay):
    """The powers start again with each chunk."""

    def powers(self, length):
        return torch.arange(length)


class WithLongBase(Steps):
    """The base grows with the length beyond 6; cached keys were turned with the one of their time."""

    def turned(self, q, k):
        positions = self.positions(q.shape[2])
        base = self.base(self.first + q.shape[2])
        return turn(q, positions, base), turn(k, positions, base)

    def base(self, length):
        return 100.0 * max(1.0, 4 * length / 6 - 3) ** (HEAD_DIM / (HEAD_DIM - 2))


class WithLongFactors(WithLongBase):
    """Beyond 6 places the other set of frequencies is used; cached keys were turned with the first."""

    def base(self, length):
        return 100.0 if length <= 6 else 10_000.0


class Interpolated(Steps):
    """Positions are squeezed by the length of the call."""

    def turned(self, q, k):
        length = q.shape[2]
        angle = (
            self.positions(length)[:, None]
            * min(1.0, 6 / length)
            * 100.0 ** -torch.linspace(0, 1, HEAD_DIM // 2)
        )
        return turn_by(q, angle), turn_by(k, angle)


def shared_count(dtype):
    """Two layers and one counter, which each of them moves."""
    layers = Layer(dtype, 0), Layer(dtype, 1)

    class Counted(Steps):
        def positions(self, length):
            first = count[0]
            count[0] += length
            return torch.arange(first, first + length) * 3  # far enough to tell

    def start():
        count[0] = 0
        steps = [Counted(layer) for layer in layers]
        return lambda x: steps[1](steps[0](x) + x)

    count = [0]
    return cache(lambda x: start()(x), start, vectors(dtype), depth=2)


def shared_offset(dtype):
    """All caches advance one offset in place."""
    layer = Layer(dtype)

    class Shared(Steps):
        offset = torch.zeros((), dtype=torch.long)

        def positions(self, length):
            positions = self.offset + torch.arange(length)
            self.offset += length
            return positions

    def start():
        steps = Shared(layer)
        steps.offset.zero_()
        return steps

    return cache(lambda x: Steps(layer)(x), start, vectors(dtype))


def unequal_rows(wrong, side):
    def check(dtype):
        layer = Layer(dtype)
        return cache(lambda x: Steps(layer)(x), lambda: wrong(layer), vectors(dtype), rows=side)

    return check


class MaskForgotten(PaddedSteps):
    """The padding mask is not joined to the mask of later steps."""

    def visible(self, queries, keys):
        return super().visible(queries, keys) if not self.first else Steps.visible(self, queries, keys)


class OneOffsetForAll(PaddedSteps):
    """All rows go on from the longest."""

    def positions(self, length):
        return self.at if not self.first else Steps.positions(self, length)


FAULTS = [
    Fault(
        "ALiBi counted from the front", "cache", "flash-attention#907", stepped(ALiBiFromTheFront, WithALiBi)
    ),
    Fault("ALiBi left out in decoding", "cache", "keras-hub#2977", stepped(ALiBiLeftOut, WithALiBi)),
    Fault(
        "bias table without the key offset",
        "cache",
        "x-transformers#103",
        stepped(TableWithoutOffset, WithTable),
    ),
    Fault(
        "gates summed over the chunk",
        "cache",
        "x-transformers data-dependent ALiBi",
        stepped(GatesOfTheChunk, WithGates),
    ),
    Fault("xPos centre moves", "cache", "flash-attention rotary", stepped(CentreMoves, WithDecay)),
    Fault("xPos powers of the chunk", "cache", "x-transformers#234", stepped(DecayOfTheChunk, WithDecay)),
    Fault(
        "keys turned with an older base", "cache", "transformers#25104", stepped(WithLongBase, WithLongBase)
    ),
    Fault(
        "keys turned with the short factors",
        "cache",
        "transformers#33129",
        stepped(WithLongFactors, WithLongFactors),
    ),
    Fault(
        "interpolation by the length of the call",
        "cache",
        "TransformerEngine rope",
        stepped(Interpolated, Interpolated),
    ),
    Fault("one counter for two layers", "cache", "fla#748", shared_count),
    Fault("an offset shared between caches", "cache", "mlx-lm#1699", shared_offset),
    Fault(
        "padding forgotten once cached", "cache", "TransformerLens#772", unequal_rows(MaskForgotten, "left")
    ),
    Fault(
        "one offset for rows of all lengths",
        "cache",
        "maclocal-api#92",
        unequal_rows(OneOffsetForAll, "right"),
    ),
]
