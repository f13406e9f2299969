"""Weights large enough for a fault to be seen: a new model's are often so small that places hardly meet."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from headwise.check.inputs import Inputs
from headwise.check.subjects.subject import LENGTH

FAINT = 1e-3  # of the largest output


@torch.no_grad()
def enlarge(module: nn.Module) -> None:
    """Scale each matrix of small weights to deviation ``1 / sqrt(columns)``, and each small table to 1.

    Rows of an embedding then have entries of deviation 1, and a matrix keeps the size of what it multiplies.

    >>> linear = torch.nn.Linear(100, 100)
    >>> _ = torch.nn.init.normal_(linear.weight, std=0.001)
    >>> enlarge(linear)
    >>> 0.09 < float(linear.weight.detach().std()) < 0.11
    True
    """
    tables = {id(each.weight) for each in module.modules() if isinstance(each, nn.Embedding)}
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        if parameter.dim() < 2 or not parameter.is_floating_point() or parameter.is_meta:
            continue
        wanted = 1.0 if id(parameter) in tables else parameter.shape[-1] ** -0.5
        deviation = float(parameter.float().std()) if parameter.numel() > 1 else 0.0
        if deviation == 0.0:
            drawn = torch.randn(parameter.shape, generator=generator).to(parameter)
            parameter.copy_(drawn * wanted)
        elif deviation < wanted / 2:
            parameter.mul_(wanted / deviation)


@torch.no_grad()
def neighbours(f: Callable[[Tensor], Tensor], inputs: Inputs) -> float:
    """The largest change of an output when an input elsewhere is replaced, as a share of the largest output.

    >>> from headwise.check.inputs import Vectors
    >>> neighbours(lambda x: x, Vectors(4))
    0.0
    """
    x = inputs.make(2, LENGTH, seed=0)
    before, changes = f(x), 0.0
    for place in range(LENGTH):
        where = torch.zeros(2, LENGTH, dtype=torch.bool)
        where[:, place] = True
        apart = (f(inputs.replace(x, where, 1)) - before).float().abs().nan_to_num(nan=0.0)
        apart[:, place] = 0.0
        changes = max(changes, float(apart.max()))
    return changes / (float(before.float().abs().nan_to_num(nan=0.0).max()) or 1.0)


def visible(
    module: nn.Module, call: Callable[[nn.Module, Tensor], Tensor], inputs: Inputs
) -> tuple[nn.Module, str]:
    """The module, or a copy with larger weights where other places hardly count; and that in words."""
    try:
        share = neighbours(lambda x: call(module, x), inputs)
        if share >= FAINT:
            return module, ""
        larger = copy.deepcopy(module)
        enlarge(larger)
        if neighbours(lambda x: call(larger, x), inputs) <= share:
            return module, ""
    except Exception:  # it cannot be called or copied, which is told elsewhere
        return module, ""
    words = (
        f"its weights are so small that other places change an output by {share:.1g} of the largest at most"
    )
    return larger, f"{words}; a copy with larger weights is checked"
