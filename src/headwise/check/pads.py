"""Sequences with padding around them, for the three properties that speak of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.check.asking import asked, refuse_unsteady
from headwise.check.comparing import Finding, Worst, first_failing, worst
from headwise.check.inputs import Inputs
from headwise.check.rounding import other_share

PaddedFunction = Callable[[Tensor, Tensor], Tensor]
"""Takes sequences ``[batch length ...]`` and ``keep [batch length]``, True for a real token."""

Side = Literal["left", "right"]
Content = Literal["random", "huge", "not-a-number"]

_HUGE = 1e4


class Padded(NamedTuple):
    """Sequences of several real lengths, padded to one; ``real[row]`` are the places of the real tokens."""

    x: Tensor
    keep: Bool[Tensor, "batch length"]
    real: list[slice]


def contents(inputs: Inputs) -> tuple[Content, ...]:
    """What pads may hold: tokens are only random, vectors huge as well."""
    return ("random", "huge") if inputs.make(1, 1, seed=0).is_floating_point() else ("random",)


def padded(inputs: Inputs, rows: list[Tensor], total: int, side: Side, content: Content, seed: int) -> Padded:
    """The rows ``[1 length ...]`` side by side, padded to ``total`` places.

    >>> from headwise.check.inputs import Vectors
    >>> rows = [torch.ones(1, 1, 1), torch.ones(1, 3, 1)]
    >>> padded(Vectors(1), rows, total=3, side="left", content="random", seed=0).keep.int()
    tensor([[0, 0, 1],
            [1, 1, 1]], dtype=torch.int32)
    """
    x = inputs.make(len(rows), total, seed)
    if content == "huge":
        x = x * _HUGE
    elif content == "not-a-number":
        x = torch.full_like(x, torch.nan)
    keep = torch.zeros(len(rows), total, dtype=torch.bool)
    real = []
    for number, row in enumerate(rows):
        length = row.shape[1]
        place = slice(0, length) if side == "right" else slice(total - length, total)
        x[number, place], keep[number, place] = row[0], True
        real.append(place)
    return Padded(x, keep, real)


def padding(f: PaddedFunction, inputs: Inputs, side: Side, depth: int, length: int) -> Finding:
    """How much pads at that side change the real outputs, for rows of ``length`` and for unequal rows."""
    cases = [([length, length], length + pads) for pads in (1, 7)]
    cases.append(([max(1, length // 2), 1, length], length))  # each row with pads of its own number
    if length == 1:
        cases.pop()
    tries = [(*case, content) for case in cases for content in contents(inputs)]
    return first_failing(map(partial(_one_case, f, inputs, side, depth), tries))


def _one_case(
    f: PaddedFunction, inputs: Inputs, side: Side, depth: int, case: tuple[list[int], int, Content]
) -> Finding:
    lengths, total, content = case
    rows = [inputs.make(1, length, seed) for seed, length in enumerate(lengths)]
    padded_rows = padded(inputs, rows, total, side, content, seed=len(rows))
    outputs = asked(f, padded_rows.x, padded_rows.keep, finite=False)
    found = Finding(0.0, 0.0, "")
    for number, row in enumerate(rows):
        alone = asked(f, row, torch.ones(1, row.shape[1], dtype=torch.bool))
        change = worst(alone, outputs[number : number + 1, padded_rows.real[number]])
        if change.share >= found.figure:
            words = _words(change, lengths, number, total, side, content)
            found = Finding(change.share, other_share(inputs, padded_rows.x, alone, depth), words)
    if found.fails:
        refuse_unsteady(f, padded_rows.x, padded_rows.keep)
    return found


def _words(change: Worst, lengths: list[int], number: int, total: int, side: Side, content: Content) -> str:
    length = lengths[number]
    of = f"the output at real place {change.place} of {length} {change.words}"
    if len(set(lengths)) > 1:
        rows = ", ".join(map(str, lengths))
        return f"{of} in a batch of rows of {rows}, padded {side} to {total} with {content} content"
    where = "before" if side == "left" else "after"
    pads = "1 pad" if total - length == 1 else f"{total - length} pads"
    return f"{of} when {pads} of {content} content {'comes' if pads == '1 pad' else 'come'} {where} it"
