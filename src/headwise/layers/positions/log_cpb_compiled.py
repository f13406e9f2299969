"""The bias of a network of offsets as one operator: it reads offsets, which compiled code cannot.

Autograd records nothing inside an operator, so its gradient is another one.
"""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from headwise.core.autocast import without_autocast
from headwise.layers.positions.distances import grid_differences
from headwise.layers.positions.log_cpb_network import Network, bias_of, gradient_of_bias

# a graph for other programs has torch's own operators alone; before torch 2.7 no code could ask which it is
_is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


def takes_one_step() -> bool:
    """Whether this is compiled code that stays here; torch.func differentiates no operator such as these.

    >>> takes_one_step()
    False
    """
    if not torch.compiler.is_compiling() or _is_exporting():
        return False
    # compiled code cannot ask `transformed`: it takes the answer None for an object
    return torch._C._functorch.get_dynamic_layer_stack_depth() == 0


@custom_op("headwise::log_cpb_bias", mutates_args=())
def bias_in_one_step(
    query_positions: Tensor,
    key_positions: Tensor,
    window: list[int],
    hidden_weight: Tensor,
    hidden_bias: Tensor,
    out_weight: Tensor,
) -> Tensor:
    """``bias_of`` the differences of positions, as an operator that torch.compile takes whole.

    >>> at, weights = torch.tensor([[0, 0], [0, 1]]), (torch.zeros(4, 2), torch.ones(4), torch.ones(8, 4))
    >>> bias_in_one_step(at, at, [3, 3], *weights).shape
    torch.Size([1, 8, 2, 2])
    """
    network = Network(window, hidden_weight, hidden_bias, out_weight)
    with without_autocast(out_weight.device):
        bias = bias_of(query_positions, key_positions, network)
    return bias.contiguous()  # as promised below, whichever way it was made


@bias_in_one_step.register_fake
def _(query_positions: Tensor, key_positions: Tensor, window: list[int], *weights: Tensor) -> Tensor:
    batch, queries, keys, _ = grid_differences(query_positions, key_positions).shape
    return weights[-1].new_empty(batch, len(weights[-1]), queries, keys)


@custom_op("headwise::log_cpb_bias_backward", mutates_args=())
def _gradient_in_one_step(
    gradient: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    window: list[int],
    hidden_weight: Tensor,
    hidden_bias: Tensor,
    out_weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    network = Network(window, hidden_weight, hidden_bias, out_weight)
    with without_autocast(out_weight.device):
        of_hidden, of_bias, of_out = gradient_of_bias(gradient, query_positions, key_positions, network)
    return of_hidden.contiguous(), of_bias, of_out.contiguous()


@_gradient_in_one_step.register_fake
def _(
    gradient: Tensor, query_positions: Tensor, key_positions: Tensor, window: list[int], *weights: Tensor
) -> tuple[Tensor, ...]:
    return tuple(weight.new_empty(weight.shape) for weight in weights)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401 (torch's own)
    query_positions, key_positions, ctx.window, *weights = inputs
    ctx.save_for_backward(query_positions, key_positions, *weights)


def _gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    query_positions, key_positions, *weights = ctx.saved_tensors
    of_weights = _gradient_in_one_step(gradient, query_positions, key_positions, ctx.window, *weights)
    return None, None, None, *of_weights


bias_in_one_step.register_autograd(_gradient, setup_context=_keep)
