"""The entry: a name and sizes in, the report of that kind of encoding out."""

from __future__ import annotations

import math

from headwise.core import HeadwiseError
from headwise.experiments.encoding.nothing import NothingReport
from headwise.experiments.encoding.penalty import PenaltyReport, examine_penalty
from headwise.experiments.encoding.tables import TableReport, examine_table
from headwise.experiments.encoding.turning import TurningReport, examine_rotary
from headwise.experiments.encoding.waves import WavesReport, examine_sinusoidal
from headwise.experiments.named import BY_DISTANCE, named_position
from headwise.experiments.sizes import check_size

_BASE = 10000.0
_DIM = 128
_PENALTIES = ("alibi", *BY_DISTANCE)
_WITHOUT_TABLE = ("rotary", "none", *_PENALTIES)
_LONGEST, _LONGEST_TABLE, _WIDEST = 2**20, 2048, 1024
_HAVE_WAVES = ("sinusoidal", "rotary")


def examine_encoding(
    name: str, *, length: int = 50, dim: int = _DIM, base: float = _BASE
) -> WavesReport | TableReport | TurningReport | PenaltyReport | NothingReport:
    """What the encoding of that name adds to ``length`` embeddings of ``dim`` dimensions, or does to scores.

    Sinusoidal: the table, the wavelengths ``2 pi base^(2i / dim)``, the law ``PE(p + k) = R_k PE(p)`` and
    dot products by distance (Vaswani et al. 2017, arXiv 1706.03762, section 3.5). Learned and integers: the
    table and its norms. Rotary, ALiBi and others that add by distance: scores and penalties by distance; for
    rotary ``dim`` is the width of one head. Raises HeadwiseError for an unknown name and for sizes or a base
    that do not fit.

    >>> report = examine_encoding("sinusoidal", length=50, dim=128)
    >>> [round(report.wavelengths[pair], 1) for pair in (0, 63)], report.law_error < 1e-13
    ([6.3, 54410.1], True)
    """
    most = _LONGEST if name in _WITHOUT_TABLE else _LONGEST_TABLE
    check_size(length, most, who="encoding", what="length")
    check_size(dim, _WIDEST, who="encoding", what="dim")
    _check_fits(name, dim, base)
    if name in _PENALTIES:
        return examine_penalty(name, length)
    match name:
        case "sinusoidal":
            return examine_sinusoidal(length, dim, base)
        case "rotary":
            return examine_rotary(length, dim, base)
        case "none":
            return NothingReport(name, length)
    return examine_table(name, named_position(name, model_dim=dim, heads=1, max_length=length), length, dim)


def _check_fits(name: str, dim: int, base: float) -> None:
    number = isinstance(base, (int, float)) and not isinstance(base, bool)
    if not number or not math.isfinite(base) or base <= 1:
        raise HeadwiseError(
            who="encoding",
            what="base",
            expected="a finite number above 1",
            got=repr(base),
            why="Wave i is base^(2i / dim) times as long as the fastest",
            do="Use 10000, the published value",
        )
    if name in _PENALTIES and dim != _DIM:
        raise HeadwiseError(
            who="encoding",
            what="dim",
            expected=f"left out for {name}",
            got=str(dim),
            why="What it adds to scores does not depend on the width of a head",
            do="Leave it out",
        )
    if name not in _HAVE_WAVES and base != _BASE:
        raise HeadwiseError(
            who="encoding",
            what="base",
            expected=f"left out for {name}",
            got=repr(base),
            why="It sets the length of waves, and this encoding has none",
            do=f"Leave it out, or examine {' or '.join(_HAVE_WAVES)}",
        )
