"""Tensor parallelism: each rank holds some heads, and a sum over the ranks mixes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.parallel.checks import check_can_be_split, check_linear, check_mesh
from headwise.layers.positions import PositionalEncoding

Module = TypeVar("Module", bound=nn.Module)


def tensor_parallel(model: Module, mesh: DeviceMesh) -> Module:
    """Split every MultiHeadAttention in ``model``, or the one it is, over the ranks of ``mesh``, in place.

    Rank r of n keeps heads ``r * heads / n`` up to ``(r + 1) * heads / n``: those rows of the query, key and
    value projections, those columns of the output projection, and its encoding's numbers for those heads.
    Every rank is given the whole input and gets the whole output; one sum over the ranks in each direction is
    all that travels. Shoeybi et al. 2019, arXiv 1909.08053, section 3; the weights become DTensors.

    An encoding's numbers for single heads become plain parameters of the rank that holds these heads, with
    their own gradient. What all heads share stays whole, and its gradient is the sum over the ranks. Load
    weights before the split. Dropout draws anew on each rank: seed the ranks differently.

    Raises HeadwiseError if heads or kv_heads do not divide by the number of ranks, if a layer is split
    already, or if the mesh has more than one axis.

    >>> from torch.distributed import destroy_process_group, init_device_mesh, init_process_group
    >>> init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    >>> layer = tensor_parallel(MultiHeadAttention(8, heads=2), init_device_mesh("cpu", (1,)))
    >>> layer(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    >>> destroy_process_group()
    """
    check_mesh(mesh, who="tensor_parallel")
    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    for layer in layers:  # all of them before the first is touched
        check_can_be_split(layer, mesh.size())
    heads = {layer.position: layer.heads for layer in layers}
    for position in heads:  # one that several layers share is split once
        _split_encoding(position, heads[position], mesh)
    for layer in layers:
        layer.heads //= mesh.size()
        layer.kv_heads //= mesh.size()
        split_linears(layer, mesh, rows=("query", "key", "value"), columns=("output",))
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


def _split_encoding(position: PositionalEncoding, heads: int, mesh: DeviceMesh) -> None:
    count = heads // mesh.size()
    for part in position.modules():  # a chain holds several
        if isinstance(part, PositionalEncoding):
            part.keep_heads(mesh.get_local_rank() * count, count, of=heads)
            for shared in _shared_by_heads(part):
                shared.register_hook(partial(_sum_over, mesh.get_group()))  # type: ignore[no-untyped-call]


def _shared_by_heads(part: PositionalEncoding) -> Iterator[Tensor]:
    """Parameters that every rank uses on its own heads only, so that each has a part of the gradient."""
    if part.acts_on == ("embeddings",):  # which all ranks have whole
        return
    inner = [child for child in part.modules() if child is not part and isinstance(child, PositionalEncoding)]
    of_others = {id(parameter) for child in inner for parameter in child.parameters()}
    for name, parameter in part.named_parameters():
        if name not in part.per_head and id(parameter) not in of_others and parameter.requires_grad:
            yield parameter


def _sum_over(group: ProcessGroup, gradient: Tensor) -> Tensor:
    total = gradient.clone()
    dist.all_reduce(total, group=group)
    return total
