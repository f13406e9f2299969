"""What is refused before anything is split: a mesh, a layer, a linear layer that does not divide."""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from headwise.core import HeadwiseError
from headwise.layers.multi_head_attention import MultiHeadAttention


def check_mesh(mesh: object, *, who: str) -> None:
    """Refuse anything but a device mesh of one axis.

    >>> from torch.distributed import destroy_process_group, init_device_mesh, init_process_group
    >>> init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    >>> check_mesh(init_device_mesh("cpu", (1,)), who="tensor_parallel")
    >>> destroy_process_group()
    """
    if isinstance(mesh, DeviceMesh) and mesh.ndim == 1:
        return
    raise HeadwiseError(
        who=who,
        what="mesh",
        expected="a DeviceMesh of one axis",
        got=f"one of {mesh.ndim} axes" if isinstance(mesh, DeviceMesh) else repr(mesh),
        why="One axis of ranks shares one layer",
        do='Pass init_device_mesh("cuda", (2,)), or one axis of a larger mesh: mesh["heads"]',
    )


def check_can_be_split(layer: MultiHeadAttention, ranks: int) -> None:
    """Refuse a layer whose heads do not divide by the ranks, or that is split already.

    >>> check_can_be_split(MultiHeadAttention(8, heads=4, kv_heads=2), ranks=2)
    """
    if isinstance(layer.query.weight, DTensor):
        raise HeadwiseError(
            who="tensor_parallel",
            what="the layer",
            expected="whole",
            got="one whose weights are DTensors",
            why="It holds the heads of one rank already",
            do="Split a layer once, or the model that it is in",
        )
    for what, count in (("heads", layer.heads), ("kv_heads", layer.kv_heads)):
        if count % ranks:
            raise HeadwiseError(
                who="tensor_parallel",
                what=what,
                expected=f"a multiple of the {ranks} ranks",
                got=str(count),
                why="Each rank holds the same number of whole heads",
                do="Use a mesh of fewer ranks, or repeat key/value heads until they divide",
            )


def check_linear(block: nn.Module, name: str, ranks: int, *, axis: int) -> None:
    """Refuse a name that is no linear layer, or one whose rows (axis 0) or columns (1) do not divide.

    >>> check_linear(nn.Sequential(nn.Linear(3, 4)), "0", ranks=2, axis=0)
    """
    linear = dict(block.named_modules()).get(name)
    what = ("rows", "columns")[axis]
    if not isinstance(linear, nn.Linear):
        raise HeadwiseError(
            who="split_linears",
            what=what,
            expected="names of linear layers in the block",
            got=repr(name),
            why="It splits their weights",
            do="Look at block.named_modules()",
        )
    if linear.weight.shape[axis] % ranks:
        raise HeadwiseError(
            who="split_linears",
            what=f"the {what} of {name!r}",
            expected=f"a multiple of the {ranks} ranks",
            got=str(linear.weight.shape[axis]),
            why="Each rank holds the same number of them",
            do="Use a mesh of fewer ranks",
        )
