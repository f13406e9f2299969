"""The network of log-spaced offsets, asked once for each different offset of a block, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear

from headwise.layers.positions.distances import can_be_read, differences, grid_differences, looked_up

_HIGHEST = 16.0


class Network(NamedTuple):
    """Weights of ``16 sigmoid(out relu(hidden s + bias))``, all of one dtype, and the window s counts in."""

    window: Sequence[int]
    hidden_weight: Float[Tensor, "width 2"]
    hidden_bias: Float[Tensor, " width"]
    out_weight: Float[Tensor, "heads width"]


def bias_of(
    query_positions: Int[Tensor, "*batch query 2"],
    key_positions: Int[Tensor, "*batch key 2"],
    network: Network,
) -> Float[Tensor, "#batch heads query key"]:
    """The network's answer to how far each key is from each query.

    >>> network = Network((3, 3), torch.zeros(4, 2), torch.ones(4), torch.ones(8, 4))
    >>> at = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    >>> bias_of(at[:5], at, network).shape
    torch.Size([1, 8, 5, 6])
    """
    offsets, index = _different(query_positions, key_positions)
    answers = _HIGHEST * _asked(offsets, network).share
    return answers.permute(0, 3, 1, 2) if index is None else looked_up(answers, index, answers.dtype)


def gradient_of_bias(
    gradient: Float[Tensor, "#batch heads query key"],
    query_positions: Int[Tensor, "*batch query 2"],
    key_positions: Int[Tensor, "*batch key 2"],
    network: Network,
) -> tuple[Float[Tensor, "width 2"], Float[Tensor, " width"], Float[Tensor, "heads width"]]:
    """What the gradient of ``bias_of`` gives the three weights, by hand: for code without autograd.

    >>> network = Network((3, 3), torch.zeros(4, 2), torch.ones(4), torch.ones(8, 4))
    >>> at = torch.cartesian_prod(torch.arange(2), torch.arange(3))
    >>> [of.shape for of in gradient_of_bias(torch.ones(1, 8, 5, 6), at[:5], at, network)]
    [torch.Size([4, 2]), torch.Size([4]), torch.Size([8, 4])]
    """
    offsets, index = _different(query_positions, key_positions)
    by_head = gradient.transpose(0, 1).flatten(1)
    if index is not None:
        by_head = by_head.new_zeros(len(by_head), len(offsets)).index_add_(1, index.flatten(), by_head)
    scaled, hidden, share = _asked(offsets.flatten(0, -2), network)
    of_out = by_head.t() * _HIGHEST * share * (1 - share)
    of_hidden = (of_out @ network.out_weight).masked_fill_(hidden == 0, 0.0)
    return of_hidden.t() @ scaled, of_hidden.sum(0), of_out.t() @ hidden


def _different(query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor | None]:
    """All offsets between the smallest and the largest, and which is each pair's; or those of the pairs.

    The second where it is shorter, or where the numbers cannot be read.
    """
    some = min(query_positions.numel(), key_positions.numel()) > 0
    if not (some and can_be_read(query_positions) and can_be_read(key_positions)):
        return grid_differences(query_positions, key_positions), None
    low = (query_positions.amin(-2) - key_positions.amax(-2)).view(-1, 2).amin(0).tolist()
    high = (query_positions.amax(-2) - key_positions.amin(-2)).view(-1, 2).amax(0).tolist()
    rows, columns = (range(a, b + 1) for a, b in zip(low, high, strict=True))
    index = differences(_place(query_positions, columns), _place(key_positions, columns))
    if len(rows) * len(columns) > index.numel():
        return grid_differences(query_positions, key_positions), None
    across = (torch.arange(side.start, side.stop, device=index.device) for side in (rows, columns))
    return torch.cartesian_prod(*across), index - (rows.start * len(columns) + columns.start)


def _place(positions: Tensor, columns: range) -> Tensor:
    return positions[..., 0] * len(columns) + positions[..., 1]


class _Asked(NamedTuple):
    scaled: Tensor
    hidden: Tensor
    share: Tensor  # of the highest answer


def _asked(offsets: Tensor, network: Network) -> _Asked:
    scaled = _scaled(offsets, network)
    hidden = linear(scaled, network.hidden_weight, network.hidden_bias).relu()
    return _Asked(scaled, hidden, linear(hidden, network.out_weight).sigmoid())


def _scaled(offsets: Tensor, network: Network) -> Tensor:
    dtype, sides = network.out_weight.dtype, [max(side - 1, 1) for side in network.window]
    share = offsets.to(dtype) / torch.tensor(sides, device=offsets.device, dtype=dtype)
    return share.sign() * torch.log2(1 + 8 * share.abs()) / math.log2(8)
