"""What a layer is spread over: one axis of ranks."""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh

from headwise.core import HeadwiseError


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
