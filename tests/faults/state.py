"""State: tables, offsets and settings that outlive a call, or that a call should have had."""

import torch

from headwise.check import batch, equivariance, history, left_padding, shift
from tests.faults.fault import Fault
from tests.faults.parts import (
    HEAD_DIM,
    HEADS,
    Layer,
    alibi,
    attend,
    causal,
    real_positions,
    split,
    turn,
    turn_by,
    vectors,
    waves,
)

TRAINED = 8  # the length beyond which a base grows


def long_base(length):
    return 100.0 * max(1.0, 2 * length / TRAINED - 1) ** (HEAD_DIM / (HEAD_DIM - 2))


class Rotary(Layer):
    """Causal attention with rotary; ``turned`` says by what."""

    def __call__(self, x):
        q, k, v = self.project(x)
        positions = torch.arange(x.shape[1])
        q, k = self.turned(q, positions), self.turned(k, positions)
        return self.merge(attend(q, k, v, causal(x.shape[1])))


def alone(kind):
    return lambda dtype: history(kind(dtype), vectors(dtype), fresh=lambda: kind(dtype))


class KeepsTheLongBase(Rotary):
    """The base is made anew for a longer input, and set back only for one of the trained length."""

    longest = TRAINED

    def turned(self, x, positions):
        length = len(positions)
        if length <= TRAINED:
            self.longest = TRAINED
        self.longest = max(self.longest, length)
        return turn(x, positions, long_base(self.longest))


class SecondLongCallRaises(Rotary):
    """The factors are made in the first long call, in a local that the second reads too."""

    made = False

    def turned(self, x, positions):
        return turn(x, positions, self.base)

    def __call__(self, x):
        is_long = x.shape[1] > TRAINED
        if is_long and not self.made:
            factor, self.made = 2.0, True
        self.base = 100.0 * factor if is_long else 100.0
        return super().__call__(x)


class KeepsTheOffset(Layer):
    """Each request goes on where the last one ended."""

    offset = 0

    def __call__(self, x):
        x = x + waves(torch.arange(self.offset, self.offset + x.shape[1])).to(x)
        self.offset += x.shape[1]
        return self.merge(attend(*self.project(x)))


class KeepsTheLargestBias(Layer):
    """The bias is kept if it is at least as large as needed, and cut at the wrong corner."""

    kept = torch.zeros(HEADS, 0, 0)

    def __call__(self, x):
        length = x.shape[1]
        if self.kept.shape[-1] < length:
            self.kept = alibi(length, length)
        return self.merge(attend(*self.project(x), bias=self.kept[:, -length:, :length]))


class KeepsAngles(Rotary):
    """xPos: the second call finds the angles where the scales should be."""

    kept = None

    def __call__(self, x):
        length = x.shape[1]
        q, k, v = self.project(x)
        angle = torch.arange(length)[:, None] * torch.linspace(1.0, 0.1, HEAD_DIM // 2)
        scale = 0.9 ** torch.arange(length)[:, None] if self.kept is None else self.kept[:length, :1]
        if self.kept is None or self.kept.shape[0] < length:
            self.kept = angle
        q, k = turn_by(q, angle).float() * scale, turn_by(k, angle).float() / scale.clamp(min=0.1)
        return self.merge(attend(q.to(v), k.to(v), v, causal(length)))


class AddsInPlace(Layer):
    def __call__(self, x):
        x += waves(torch.arange(x.shape[1])).to(x)
        return self.merge(attend(*self.project(x)))


def one_table_for_all(dtype):
    """A table for the whole process, under the length alone, whatever the base."""
    tables = {}

    class Tabled(Rotary):
        def __init__(self, base):
            super().__init__(dtype)
            self.base = base

        def turned(self, x, positions):
            half = x.shape[-1] // 2
            angle = positions[:, None] * self.base ** -(torch.arange(half) / half)
            return turn_by(x, tables.setdefault(len(positions), angle))

    return history(Tabled(1e4), vectors(dtype), others=[lambda: Tabled(10.0)])


def offset_not_in_the_key(dtype):
    """One module, called with two offsets: the table of the first call serves both."""
    layer, tables = Layer(dtype), {}

    def f(x, offset):
        length = x.shape[1]
        table = tables.setdefault(length, waves(torch.arange(offset, offset + length)))
        return layer.merge(attend(*layer.project(x + table.to(x))))

    return history(lambda x: f(x, 0), vectors(dtype), others=[lambda: lambda x: f(x, 3)])


class TableOfTheFirstDtype:
    """Positions are made in the dtype of the first queries, and the table is kept."""

    def __init__(self, dtype):
        self.tables = {}

    def __call__(self, x):
        length = x.shape[1]
        q = split(x)
        if length not in self.tables:
            self.tables[length] = torch.arange(250, 250 + length).to(x.dtype).float()
        turned = turn(q, self.tables[length])
        return attend(turned, turn(split(x.flip(-1)), self.tables[length]), q).transpose(1, 2).flatten(-2)


def shifted(positions_of):
    """Rotary whose positions pass through something that loses them."""

    def check(dtype):
        layer = Layer(dtype)

        def f(x, positions):
            q, k, v = layer.project(x)
            positions = positions_of(positions)
            return layer.merge(attend(turn(q, positions), turn(k, positions), v))

        return shift(f, vectors(dtype))

    return check


def single_place_takes_rows_for_positions(dtype):
    """With one place for each row, the axis of rows is taken for that of positions."""
    layer = Layer(dtype)
    memory = torch.linspace(-2, 2, 48).reshape(1, 3, 16).sin().to(dtype)

    def f(x):
        rows, length = x.shape[:2]
        q, k, v = layer.project(x, torch.cat([memory.expand(rows, -1, -1), x], 1))
        positions = 3 + torch.arange(rows)[:, None] if length == 1 else 3 + torch.arange(length)
        return layer.merge(attend(turn(q, positions), turn(k, torch.arange(3 + length)), v))

    return batch(f, vectors(dtype))


def frequencies_lost(dtype):
    """Frequencies that are in no state dict are zeros after a start on the meta device."""
    layer = Layer(dtype)

    def f(x):
        q, k, v = layer.project(x)
        positions, lost = torch.arange(x.shape[1]), torch.zeros(HEAD_DIM // 2)
        return layer.merge(
            attend(turn(q, positions, frequencies=lost), turn(k, positions, frequencies=lost), v)
        )

    return equivariance(f, vectors(dtype), order_blind=False)


def factors_by_the_longest_row(dtype):
    """Short or long factors are chosen by the length of the batch, pads included."""
    layer = Layer(dtype)

    def f(x, keep):
        q, k, v = layer.project(x)
        positions, base = real_positions(keep), 100.0 if x.shape[1] <= TRAINED else 1.5
        visible = causal(x.shape[1]) & keep[:, None, None]
        return layer.merge(attend(turn(q, positions, base), turn(k, positions, base), v, visible))

    return left_padding(f, vectors(dtype))


FAULTS = [
    Fault("the base of the longest call stays", "history", "transformers#25306", alone(KeepsTheLongBase)),
    Fault("the second long call raises", "history", "transformers LongRoPE", alone(SecondLongCallRaises)),
    Fault("an offset from an earlier request", "history", "transformers#44873", alone(KeepsTheOffset)),
    Fault("a kept bias cut at the wrong corner", "history", "x-transformers#90", alone(KeepsTheLargestBias)),
    Fault(
        "angles kept in the place of scales", "history", "rotary-embedding-torch 22cac59", alone(KeepsAngles)
    ),
    Fault("positions added in place", "history", "NVIDIA-NeMo/Speech#7440", alone(AddsInPlace)),
    Fault("one table for every base", "history", "equinox RotaryPositionalEmbedding", one_table_for_all),
    Fault("one table for every offset", "history", "rotary-embedding-torch a4d49fc", offset_not_in_the_key),
    Fault(
        "a table in the first call's dtype", "history", "rotary-embedding-torch", alone(TableOfTheFirstDtype)
    ),
    Fault("negative positions become 0", "shift", "fla#902", shifted(lambda p: p.clamp(min=0))),
    Fault("positions in bfloat16", "shift", "transformers#29285", shifted(lambda p: p.bfloat16())),
    Fault("rows taken for positions", "batch", "mlx#3494", single_place_takes_rows_for_positions),
    Fault("frequencies lost in loading", "equivariance", "unsloth#4112", frequencies_lost),
    Fault("factors by the longest row", "left padding", "mlx-lm#707", factors_by_the_longest_row),
]
