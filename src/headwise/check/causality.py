"""Does the future leak into the past?"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.check.influence import SequenceFunction, influence
from headwise.check.inputs import Inputs
from headwise.check.report import Report, judged
from headwise.check.rounding import same_kernels

_CAUSE = (
    "Usually a mask that is off by one, that is aligned to the wrong corner, or that one of several paths "
    "drops: look at the diagonal of the mask, and at what becomes of it when a mask, weights or dropout are "
    "asked for"
)


def causality(f: SequenceFunction, inputs: Inputs, *, lengths: tuple[int, ...] = (2, 3, 5, 12, 33)) -> Report:
    """No output depends on a later input: ``f(x)[:, t]`` is the same whatever comes after t.

    Each input is replaced, one at a time, and the outputs before it must not move; where ``f`` can be
    differentiated, the gradient of each output with regard to later inputs must be exactly zero. The shortest
    length that fails is reported, with the pair of places that leaks most.

    >>> from headwise.check import Vectors, causality
    >>> causality(lambda x: x.cumsum(1), Vectors(4)).verdict
    'holds'
    >>> print(causality(lambda x: x + x.roll(-1, dims=1), Vectors(4)).failing)  # doctest: +ELLIPSIS
    the output at 0 changes by ... with the input at 1, of 2
    """
    tried = f"2 inputs of each of {', '.join(map(str, lengths))} places"
    largest = (0.0, 0.0)
    for length in lengths:
        leak, limit = _leak(f, inputs, length)
        leak = leak.nan_to_num(nan=torch.inf)
        worst = float(leak.max())
        if worst > limit:
            output, place = divmod(int(leak.argmax()), length)
            failing = f"the output at {output} changes by {worst:.2g} with the input at {place}, of {length}"
            return judged("causality", worst, limit, tried=tried, failing=failing, cause=_CAUSE)
        largest = max(largest, (worst, limit))
    return judged("causality", *largest, tried=tried, failing="", cause=_CAUSE)


def _leak(f: SequenceFunction, inputs: Inputs, length: int) -> tuple[Tensor, float]:
    reach = influence(f, inputs, length=length).triu(1)
    limit = same_kernels(f(inputs.make(2, length, seed=0)))
    x = inputs.make(2, length, seed=0)
    if x.is_floating_point() and not bool((reach > limit).any()):
        reach = torch.maximum(reach, _gradients(f, x).triu(1))
    return reach, limit


def _gradients(f: SequenceFunction, x: Tensor) -> Tensor:
    """The largest derivative of each output with regard to each input, 0 where ``f`` passes no gradient."""
    length, rows = x.shape[1], []
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        output = f(x)
        if not output.requires_grad:
            return torch.zeros(length, length)
        mixed = output * torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
        for place in range(length):  # mixed, because the plain sum of a normalised output never changes
            (gradient,) = torch.autograd.grad(mixed[:, place].sum(), x, retain_graph=True)
            rows.append(gradient.float().abs().movedim(1, 0).flatten(1).amax(1))
    return torch.stack(rows)
