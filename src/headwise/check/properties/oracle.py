"""Does it compute what the formula says?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headwise.check.asking import MisbehavedError, ask
from headwise.check.comparing import distance, place
from headwise.check.inputs import Arguments, arguments
from headwise.check.report import Report, failed, judged
from headwise.check.rounding import other_kernels

_CAUSE = (
    "Usually an index that is off by one, a sign, a wrong denominator, or a special case such as an odd or a "
    "boundary size: put the first numbers that differ beside the published formula"
)


def oracle(
    f: Callable[..., Any],
    formula: Callable[..., Any],
    inputs: Arguments,
    *,
    sizes: tuple[int, ...] = (1, 2, 3, 5, 8, 17, 33),
    axis: str = "length",
    depth: int = 1,
) -> Report:
    """``f`` equals a formula, which is computed in float64 from the same inputs.

    ``inputs`` makes sequences, or is a function that gives the arguments of one call for each of ``sizes``;
    ``axis`` says what a size counts. The bound is what rounding in the lowest precision of the inputs and of
    the output may cause through ``depth`` layers; whole numbers must be equal. Where the formula has an
    answer, raising is a failure. The smallest size that fails is reported.

    >>> from headwise.check import oracle
    >>> oracle(lambda heads: 2.0 ** (-8 * torch.arange(heads) / heads),  # starts at 0, not at 1
    ...        lambda heads: 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads),
    ...        inputs=lambda heads: (heads,), axis="heads").failing
    'at heads 1, the output at [0] is 1 where the formula gives 0.003906'
    """
    tried = f"{axis} {', '.join(map(str, sizes))}"
    largest = (0.0, 0.0)
    for size in sizes:
        given = arguments(inputs, size)
        want = torch.as_tensor(formula(*map(_wide, given))).double()
        try:
            got = ask(f, *given, shape=want.shape)
        except MisbehavedError as error:
            return failed("oracle", tried=tried, failing=f"at {axis} {size}, {error}", cause=_CAUSE)
        limit = _limit(got, want, given, depth)
        worst, where = place(distance(got, want)) if want.numel() else (0.0, ())
        if worst > limit:
            numbers = f"{float(got[where]):.4g} where the formula gives {float(want[where]):.4g}"
            failing = f"at {axis} {size}, the output at {list(where)} is {numbers}"
            return judged("oracle", worst, limit, tried=tried, failing=failing, cause=_CAUSE)
        largest = max(largest, (worst, limit))
    return judged("oracle", *largest, tried=tried, failing="", cause=_CAUSE)


def _limit(got: Tensor, want: Tensor, given: tuple[Any, ...], depth: int) -> float:
    if not got.is_floating_point():
        return 0.0
    tensors = [x for x in (*given, got) if isinstance(x, Tensor) and x.is_floating_point()]
    coarsest = max((x.dtype for x in tensors), key=lambda dtype: torch.finfo(dtype).eps)
    terms = max(number for x in tensors for number in (*x.shape[-2:], 1))
    return other_kernels(want.to(coarsest), terms, depth) / 2  # one of the two runs is exact


def _wide(x: object) -> object:
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x
