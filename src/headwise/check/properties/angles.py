"""Are positions told apart far from the start, in low precision too?"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.check.asking import MisbehavedError, checked
from headwise.check.comparing import distance, place
from headwise.check.report import Report, failed, judged
from headwise.check.turning import Pairs, Rotate, expected, matrices, off_by

_CAUSE = (
    "Usually positions or frequencies in the dtype of the activations: bfloat16 has no 257. Compute angles "
    "in float32 or better from whole numbers, keep frequencies out of what .to(dtype) casts, and give back "
    "the dtype that came in"
)
_DO = "Pass a callable of vectors [1 1 length head_dim] and positions [length], or positions= it knows"
_STEPS = (1, 2, 7, 61)


@checked("angles", do=_DO)
def angles(
    rotate: Rotate,
    *,
    keys: Rotate | None = None,
    head_dim: int = 64,
    positions: tuple[int, ...] = (255, 257, 259, 2049, 100_003),
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16),
    frequencies: Tensor | None = None,
    pairs: Pairs = "halves",
) -> Report:
    """Rotation is right far from the start, in every dtype, and gives back the dtype it got.

    ``rotate(x, positions)`` turns vectors ``[batch heads length head_dim]`` at ``positions``. Checked at
    each position: the turn equals that of the given ``frequencies``, or else that of ``rotate`` itself in
    float64; and two places a few tokens apart differ as they do at the start, so that distinct positions
    turn distinctly. The bound grows with the position only by what float32 angles are off. ``keys`` turns
    keys where they turn another way (xPos).

    >>> from headwise.check import angles
    >>> def rotate(x, positions):
    ...     angle = positions.to(x.dtype) * 1.0  # 257 is 256 in bfloat16
    ...     return torch.stack((x[..., 0] * angle.cos() - x[..., 1] * angle.sin(),
    ...                         x[..., 0] * angle.sin() + x[..., 1] * angle.cos()), -1).to(x.dtype)
    >>> angles(rotate, head_dim=2).failing
    'in bfloat16, positions 255 and 257 do not differ as 0 and 2 do'
    """
    names = ", ".join(_name(dtype) for dtype in dtypes)
    tried = f"positions {', '.join(f'{p:,}' for p in positions)} in {names}"
    places = sorted({0, *_STEPS, *positions, *(p + step for p in positions for step in (-1, *_STEPS))})
    largest = (0.0, 0.0)
    right = _right(rotate, places, head_dim, frequencies, pairs)
    for dtype in dtypes:
        turns, given_dtype = matrices(rotate, places, head_dim, dtype)
        key_turns = turns if keys is None else matrices(keys, places, head_dim, dtype)[0]
        if given_dtype != dtype:
            failing = f"vectors in {_name(dtype)} come back in {_name(given_dtype)}"
            return failed("angles", tried=tried, failing=failing, cause=_CAUSE)
        for p in positions:
            worst, limit, failing = _at(p, places, turns, key_turns, right, dtype)
            if not worst <= limit:
                failing = f"in {_name(dtype)}, {failing}"
                return judged("angles", worst, limit, tried=tried, failing=failing, cause=_CAUSE)
            largest = max(largest, (worst, limit))
    return judged("angles", *largest, tried=tried, failing="", cause=_CAUSE)


def _right(
    rotate: Rotate, places: list[int], head_dim: int, frequencies: Tensor | None, pairs: Pairs
) -> Tensor:
    if frequencies is not None:
        return expected(frequencies, places, head_dim, pairs)
    try:
        return matrices(rotate, places, head_dim, torch.float64)[0]
    except MisbehavedError:  # some code has no float64
        return matrices(rotate, places, head_dim, torch.float32)[0]


def _at(
    p: int, places: list[int], turns: Tensor, key_turns: Tensor, right: Tensor, dtype: torch.dtype
) -> tuple[float, float, str]:
    """The largest error at a position beside what rounding allows, and the words for it."""
    index = {position: number for number, position in enumerate(places)}
    size = float(turns[index[0]].abs().max())
    alike = [other for other in (p - 1, p + 1) if torch.equal(turns[index[p]], turns[index[other]])]
    direct = float(distance(turns[index[p]], right[index[p]]).max())
    limit = 2 * off_by(p, dtype) * size
    words = f"the turn at position {p:,} is {direct:.2g} off"
    found = [(direct, limit, words)]
    for step in _STEPS:
        here = turns[index[p]] @ key_turns[index[p + step]].mT
        start = turns[index[0]] @ key_turns[index[step]].mT
        apart = place(distance(here, start))[0]
        # an entry sums two products of sines and cosines, |c| + |s| <= 1.42 each; at two places
        limit = 3 * (off_by(p + step, dtype) + off_by(step, dtype)) * size * size
        found.append((apart, limit, f"positions {p:,} and {p + step:,} do not differ as 0 and {step} do"))
    worst, limit, words = max(found, key=lambda pair: pair[0] - pair[1])
    if alike and not worst <= limit:
        words = f"positions {min(p, alike[0]):,} and {max(p, alike[0]):,} turn alike"
    return worst, limit, words


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
