"""Is it a rotation, whose products know the distance alone?"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.check.asking import checked
from headwise.check.comparing import distance
from headwise.check.report import Report, failed, judged
from headwise.check.turning import Pairs, Rotate, layout, matrices, off_by

_CAUSE = (
    "Usually pairs that are split one way and put together another, a sign, or a cosine and a sine that "
    "belong to different pairs: look at where a vector is split in two and joined again"
)
_PLACES = tuple(range(6))


@checked("rotation", do="Pass a callable that takes vectors [1 1 length head_dim] and positions [length]")
def rotation(
    rotate: Rotate,
    *,
    keys: Rotate | None = None,
    head_dim: int = 8,
    shifts: tuple[int, ...] = (1, 17, 1000),
    pairs: Pairs | None = None,
    rotary_dim: int | None = None,
    decays: bool = False,
    scaled: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Report:
    """Lengths are kept, and ``R(m)^T R(n)`` depends on ``n - m`` only, whichever comes first.

    ``rotate(x, positions)`` turns vectors ``[batch heads length head_dim]``, and ``keys`` does so for keys
    where they turn another way. Negative ``shifts`` try negative positions. ``pairs`` claims a layout and
    a direction: where dimension 0 goes at position 1, of ``rotary_dim`` dimensions that turn. With
    ``decays`` (xPos) lengths may change; with ``scaled`` (YaRN) they may change by one factor.

    >>> from headwise.check import rotation
    >>> def rotate(x, positions):  # neighbours have one angle, but halves turn together
    ...     angle = (positions[:, None] * torch.tensor([1.0, 0.01])).repeat_interleave(2, -1)
    ...     a, b = x.chunk(2, -1)
    ...     return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()
    >>> print(rotation(rotate, head_dim=4).failing)
    a unit vector along dimension 0 has length 0.5404 at position 1
    """
    places = sorted({*_PLACES, *(p + shift for p in _PLACES for shift in shifts)})
    turns = dict(zip(places, matrices(rotate, places, head_dim, dtype)[0], strict=True))
    key_turns = turns
    if keys is not None:
        key_turns = dict(zip(places, matrices(keys, places, head_dim, dtype)[0], strict=True))
    seen = layout(turns[1][0], rotary_dim or head_dim, small=2 * off_by(1, dtype))
    tried = f"positions 0 to 5 shifted by {', '.join(f'{s:,}' for s in shifts)}; {seen}"
    found = [] if decays else [_lengths(turns, dtype, scaled), _lengths(key_turns, dtype, scaled)]
    found += [_by_distance(turns, key_turns, shifts, dtype)]
    bad = (one for one in found if not one[0] <= one[1])
    worst, limit, failing = next(bad, max(found))
    width = rotary_dim or head_dim
    into = 1 if pairs == "neighbours" else width // 2
    if worst <= limit and pairs is not None and not float(turns[1][0, 0, into]) > 2 * off_by(1, dtype):
        failing = f'{seen}, not into dimension {into}, as the layout "{pairs}" says'
        return failed("rotation", worst, limit, tried=tried, failing=failing, cause=_CAUSE)
    return judged("rotation", worst, limit, tried=tried, failing=failing, cause=_CAUSE)


def _by_distance(
    turns: dict[int, Tensor], key_turns: dict[int, Tensor], shifts: tuple[int, ...], dtype: torch.dtype
) -> tuple[float, float, str]:
    """How far R(m)^T R(n) moves when both move by a shift; the first failing pair, or the largest figure."""
    largest = (0.0, 0.0, "")
    size = float(turns[0].abs().max())
    for shift in shifts:
        for m in _PLACES:
            for n in _PLACES:
                here = turns[m] @ key_turns[n].mT
                there = turns[m + shift] @ key_turns[n + shift].mT
                apart = distance(here, there)
                far = max(abs(m + shift), abs(n + shift), m, n)
                # an entry sums two products of sines and cosines, |c| + |s| <= 1.42 each; at two places
                limit = (
                    3
                    * (off_by(far, dtype) + off_by(max(m, n), dtype))
                    * size
                    * max(1.0, float(here.abs().max()))
                )
                worst = float(apart.max())
                if worst > limit:
                    return worst, limit, _pair(m, n, shift, apart)
                largest = max(largest, (worst, limit, ""))
    return largest


def _pair(m: int, n: int, shift: int, apart: Tensor) -> str:
    _, row, column = (int(i) for i in torch.unravel_index(apart.argmax(), apart.shape))
    where = f"dimensions {row} and {column}, by {float(apart.max()):.2g}"
    return f"positions {m} and {n} do not differ as {m + shift} and {n + shift} do: {where}"


def _lengths(turns: dict[int, Tensor], dtype: torch.dtype, scaled: bool) -> tuple[float, float, str]:
    """How far the length of a unit vector is from 1, or from its length at position 0."""
    largest = (0.0, 0.0, "")
    for p, turn in sorted(turns.items(), key=lambda item: abs(item[0])):
        lengths = turn.norm(dim=-1)
        want = turns[0].norm(dim=-1) if scaled else torch.ones_like(lengths)
        apart = (lengths - want).abs()
        limit = 3 * off_by(p, dtype) * float(want.max())
        head, dimension = (int(i) for i in torch.unravel_index(apart.argmax(), apart.shape))
        length = f"length {float(lengths[head, dimension]):.4g} at position {p}"
        words = f"a unit vector along dimension {dimension} has {length}"
        if float(apart.max()) > limit:
            return float(apart.max()), limit, words
        largest = max(largest, (float(apart.max()), limit, ""))
    return largest
