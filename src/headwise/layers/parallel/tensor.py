"""Tensor parallelism: each rank holds some heads, and a sum over the ranks mixes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.parallel.checks import check_can_be_split, check_linear, check_mesh
from headwise.layers.positions import PositionalEncoding
from headwise.layers.sinks import Sinks
from headwise.layers.transformer import MLP, GatedMLP

Module = TypeVar("Module", bound=nn.Module)


def tensor_parallel(model: Module, mesh: DeviceMesh) -> Module:
    """Split every MultiHeadAttention and every MLP in ``model`` over the ranks of ``mesh``, in place.

    Rank r of n keeps heads ``r * heads / n`` up to ``(r + 1) * heads / n``: those rows of the query, key,
    value and gate projections, those columns of the output projection, those sinks, and its encoding's
    numbers for those heads. Every rank is given the whole input and gets the whole output; one sum over the
    ranks in each direction is all that travels. Shoeybi et al. 2019, arXiv 1909.08053, section 3. The
    projections become DTensors.

    Sinks and an encoding's numbers for single heads become plain parameters of the rank that holds these
    heads, with their own gradient. What all heads share stays whole, and its gradient is the sum over the
    ranks. Load weights before the split. Seed all ranks alike, for the dropout that follows; the heads of
    one rank then drop what those of another do. ``contributions`` is not for a layer that is split, and
    MultiHeadLatentAttention stays whole on every rank.

    Raises HeadwiseError if heads, kv_heads or an MLP's hidden width do not divide by the number of ranks, if
    a layer is split already, or if the mesh has more than one axis.

    >>> from torch.distributed import destroy_process_group, init_device_mesh, init_process_group
    >>> init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    >>> layer = tensor_parallel(MultiHeadAttention(8, heads=2), init_device_mesh("cpu", (1,)))
    >>> layer(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    >>> destroy_process_group()
    """
    check_mesh(mesh, who="tensor_parallel")
    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    mlps = [module for module in model.modules() if isinstance(module, (MLP, GatedMLP))]
    for layer in layers:  # all of them before the first is touched
        check_can_be_split(layer, mesh.size())
    for mlp in mlps:
        check_linear(mlp, "inner", mesh.size(), axis=0)
    heads = {layer.position: layer.heads for layer in layers}
    for position in heads:  # one that several layers share is split once
        _split_encoding(position, heads[position], mesh)
    for layer in layers:
        _split_layer(layer, mesh)
    for mlp in mlps:
        rows = ("gate", "inner") if isinstance(mlp, GatedMLP) else ("inner",)
        split_linears(mlp, mesh, rows=rows, columns=("outer",))
    return model


def split_linears(block: nn.Module, mesh: DeviceMesh, *, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Split linear layers of ``block`` in place: some by rows, and those that read their output by columns.

    That fits any block where what lies between works on each number alone, an MLP say: ``rows=("up",)``,
    ``columns=("down",)``. The block is given the whole input and gives the whole output.

    Raises HeadwiseError if a name is no linear layer, or if its rows or columns do not divide by the ranks.

    >>> from torch.distributed import destroy_process_group, init_device_mesh, init_process_group
    >>> init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    >>> mlp = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    >>> split_linears(mlp, init_device_mesh("cpu", (1,)), rows=("0",), columns=("2",))
    >>> mlp(torch.zeros(1, 3, 4)).shape
    torch.Size([1, 3, 4])
    >>> destroy_process_group()
    """
    check_mesh(mesh, who="split_linears")
    for name in (*rows, *columns):
        check_linear(block, name, mesh.size(), axis=0 if name in rows else 1)
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in rows}
    plan |= {name: RowwiseParallel() for name in columns}
    parallelize_module(block, mesh, plan)


def _split_layer(layer: MultiHeadAttention, mesh: DeviceMesh) -> None:
    count = layer.heads // mesh.size()
    layer.heads, layer.kv_heads = count, layer.kv_heads // mesh.size()
    if isinstance(layer.sinks, Sinks):
        logits = layer.sinks.logits
        share = logits.detach().chunk(mesh.size())[mesh.get_local_rank()].clone()
        layer.sinks.logits = nn.Parameter(share, requires_grad=logits.requires_grad)
    if layer.head_norm is not None:
        _sum_gradients(layer.head_norm.parameters(), mesh)
    rows = ["query", "key", "value", *([] if layer.gate is None else ["gate.projection"])]
    split_linears(layer, mesh, rows=rows, columns=("output",))


def _split_encoding(position: PositionalEncoding, heads: int, mesh: DeviceMesh) -> None:
    count = heads // mesh.size()
    for part in position.modules():  # a chain holds several
        if not isinstance(part, PositionalEncoding):
            continue
        part.keep_heads(mesh.get_local_rank() * count, count, of=heads)
        inner = [one for one in part.modules() if one is not part and isinstance(one, PositionalEncoding)]
        of_others = {id(parameter) for one in inner for parameter in one.parameters()}
        if part.acts_on != ("embeddings",):  # which all ranks have whole
            of_heads = dict(part.per_head)
            own = [(name, one) for name, one in part.named_parameters() if id(one) not in of_others]
            _sum_gradients([one for name, one in own if name not in of_heads], mesh)
        if not inner and type(part).features is not PositionalEncoding.features:
            part.features = partial(_features, part.features, mesh)  # type: ignore[method-assign]


def _features(features: Callable[[Tensor], Tensor | None], mesh: DeviceMesh, x: Tensor) -> Tensor | None:
    """Features of this rank's heads; what they say to ``x`` on the way back is added up over the ranks."""
    whole = DTensor.from_local(x, mesh, [Replicate()])
    return features(whole.to_local(grad_placements=[Partial()]))


def _sum_gradients(shared: Iterable[nn.Parameter], mesh: DeviceMesh) -> None:
    """For parameters that every rank uses on its own heads only, so that each has a part of the gradient."""
    for parameter in shared:
        if parameter.requires_grad:
            hook = partial(_sum_over, mesh.get_group())
            parameter.register_hook(hook)  # type: ignore[no-untyped-call]


def _sum_over(group: ProcessGroup, gradient: Tensor) -> Tensor:
    total = gradient.clone()
    dist.all_reduce(total, group=group)
    return total
