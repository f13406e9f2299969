"""Sizes an experiment takes: whole numbers that fit, and no larger than a person can wait for."""

from __future__ import annotations

from headwise.core import HeadwiseError
from headwise.core.shapes import check_positive


def check_size(value: object, most: int, *, who: str, what: str) -> None:
    """Refuse anything but a whole number from 1 to ``most``.

    >>> check_size(50, 4096, who="encoding", what="length")
    """
    check_positive(value, who=who, what=what)
    assert isinstance(value, int)
    if value <= most:
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"at most {most:,}",
        got=f"{value:,}",
        why="More would take too long or too much memory to show anything new",
        do="Use a smaller number",
    )


def check_divides(heads: object, model_dim: int, *, who: str, what: str) -> None:
    """Refuse a number of heads that does not divide ``model_dim``, and name the nearest that do.

    >>> check_divides(7, 512, who="heads", what="heads")
    Traceback (most recent call last):
    ...
    headwise.errors.HeadwiseError: heads: heads must be a divisor of model_dim=512, got 7. Each head \
gets an equal share of the dimensions. Use 4 or 8.
    """
    check_positive(heads, who=who, what=what)
    assert isinstance(heads, int)
    if model_dim % heads == 0:
        return
    divisors = [d for d in range(1, model_dim + 1) if model_dim % d == 0]
    below, above = [d for d in divisors if d < heads], [d for d in divisors if d > heads]
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"a divisor of model_dim={model_dim}",
        got=str(heads),
        why="Each head gets an equal share of the dimensions",
        do=f"Use {' or '.join(str(d) for d in (*below[-1:], *above[:1]))}",
    )
