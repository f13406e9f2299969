"""Tables of positions with one classic fault each: waves, lengths, grids."""

import torch
from torch import nn

from headwise.check import Vectors, axes, length, oracle
from tests.faults import formulas as right
from tests.faults.fault import Fault
from tests.faults.rotation import speeds


def exponent_doubled(length, dim):
    table = torch.zeros(length, dim)
    for i in range(0, dim, 2):
        at = torch.arange(length)
        table[:, i] = (at / 10000 ** (2 * i / dim)).sin()
        table[:, i + 1] = (at / 10000 ** (2 * i / dim)).cos()
    return table


def odd_width_refused(length, dim):
    table = torch.zeros(length, dim)
    at = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
    table[:, 0::2], table[:, 1::2] = at.sin(), at.cos()
    return table


def table_of(make, dim):
    def check(dtype):
        return oracle(
            lambda n: make(n, dim).to(dtype),
            lambda n: right.sinusoidal(n, dim),
            lambda n: (n,),
            sizes=(1, 2, 9),
        )

    return check


def table_read_at(places):
    """A model of 16 positions that reads its table at ``places(length)``."""

    def check(dtype):
        table = right.sinusoidal(16, 8).to(dtype)

        def f(x):
            x = x + table[places(x.shape[1])]
            return (x @ x.mT / 8**0.5).softmax(-1) @ x

        return length(f, Vectors(8, dtype), trained=16)

    return check


def wave(at, channels=4):
    return torch.cat([f(at[..., None] * speeds(channels)) for f in (torch.sin, torch.cos)], -1)


def height_and_width_swapped(height, width):
    row, column = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="ij")
    return torch.cat((wave(row.flatten().float()), wave(column.flatten().float())), -1)


def columns_first(height, width):
    column, row = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")
    return torch.cat((wave(column.flatten().float()), wave(row.flatten().float())), -1)


def square_assumed(height, width):
    table = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(9.0), indexing="ij"), -1)
    side = int(table[..., 0].numel() ** 0.5)  # 36 cells, so 6 x 6
    table = table.reshape(1, side, side, 2).permute(0, 3, 1, 2)
    resized = nn.functional.interpolate(table, size=(height, width), mode="bilinear", align_corners=True)
    return resized[0].permute(1, 2, 0)


def on_grid(encode, **claims):
    return lambda dtype: axes(lambda height, width: encode(height, width).to(dtype), **claims)


FAULTS = [
    Fault(
        "the sinusoid's exponent doubled",
        "oracle",
        "SamLynnEvans/Transformer#25",
        table_of(exponent_doubled, 4),
    ),
    Fault("an odd width", "oracle", "pyaptamer#526", table_of(odd_width_refused, 5)),
    Fault(
        "positions clamped to the last of a table",
        "length",
        "profam#142",
        table_read_at(lambda count: torch.arange(count).clamp(max=15)),
    ),
    Fault("a table that is read past its end", "length", "transformers#8077", table_read_at(torch.arange)),
    Fault("height and width swapped", "axes", "timm 33791c8f", on_grid(height_and_width_swapped)),
    Fault(
        "columns turn the half of the rows",
        "axes",
        "timm 33791c8f",
        on_grid(columns_first, first="rows"),
    ),
    Fault("a square table assumed", "axes", "timm 3ae3f442", on_grid(square_assumed, trained=(4, 9))),
]
