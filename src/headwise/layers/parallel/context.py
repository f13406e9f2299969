"""Context parallelism: each rank holds a chunk of the sequence, and keys and values travel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Shard

from headwise.core.masks import Mask
from headwise.layers.cache.cached import Cached
from headwise.layers.cache.kv_cache import KVCache
from headwise.layers.parallel.checks import check_mesh


class ContextParallel(KVCache):
    """Given as the ``cache`` of a layer: rank r of n passes chunk r of the sequence and sees all of it.

    Each rank projects its own tokens; keys, values and positions of all ranks are gathered, in the order of
    the ranks, and gradients go back to where the keys came from. A rank's queries stand at their own slots,
    so every mask holds as in one process: give padding for the chunk or for the whole sequence, and any other
    mask for the whole. Positions count through all chunks unless given. Chunks are equally long.

    It remembers nothing, so that one object serves every layer and call. A rank's output is its chunk's, and
    its gradients of the weights are its chunk's share: add them up over the ranks. Dubey et al. 2024, arXiv
    2407.21783, section 3.3.2, gather keys and values in the same way. Under a causal mask the last rank does
    the most work. Memory for keys and values is that of the whole sequence, for scores that of a block.

    Raises HeadwiseError if the mesh has more than one axis.

    >>> from headwise import Causal, MultiHeadAttention
    >>> from torch.distributed import destroy_process_group, init_device_mesh, init_process_group
    >>> init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    >>> chunks = ContextParallel(init_device_mesh("cpu", (1,)))
    >>> MultiHeadAttention(8, heads=2, mask=Causal())(torch.zeros(1, 3, 8), cache=chunks).shape
    torch.Size([1, 3, 8])
    >>> destroy_process_group()
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        check_mesh(mesh, who="ContextParallel")
        super().__init__()
        self.mesh = mesh

    def append(
        self,
        k: Float[Tensor, "batch kv_heads length head_dim"],
        v: Float[Tensor, "batch kv_heads length value_dim"],
        positions: Int[Tensor, "*shape"] | None = None,
        keep: Bool[Tensor, "#batch length"] | None = None,
        *,
        features: Float[Tensor, "batch heads length"] | None = None,
        axes: int = 1,
    ) -> Cached:
        """The keys, values and positions of all ranks; nothing is stored."""
        length = k.shape[2]
        if positions is None:
            positions = self.next_positions(length, keep, device=k.device, axes=axes)
        gathered = Gathered(
            self._gather(k, 2),
            self._gather(v, 2),
            self._gather(positions, positions.dim() - (1 if axes == 1 else 2)),
            None if keep is None else self._gather(keep, 1),
            None if features is None else self._gather(features, 2),
        )
        gathered.later_slots = (self.mesh.size() - 1 - self.mesh.get_local_rank()) * length
        return gathered

    def next_positions(
        self,
        length: int,
        keep: Bool[Tensor, "#batch length"] | None = None,
        *,
        device: torch.device | None = None,
        axes: int = 1,
    ) -> Int[Tensor, "*shape"]:
        """Where this rank's tokens stand unless told: counted through all chunks, without padding."""
        first = self.mesh.get_local_rank() * length
        if keep is None:
            positions = torch.arange(first, first + length, device=device)
        else:
            positions = (self._gather(keep, 1).cumsum(-1) - 1).clamp(min=0)[:, first : first + length]
        return positions if axes == 1 else positions[..., None].expand(*positions.shape, axes)

    def keys(self, length: int) -> int:
        """How many keys a rank's queries get: those of all ranks."""
        return self.mesh.size() * length

    def _gather(self, x: Tensor, axis: int) -> Tensor:
        # each rank's queries give a part of a key's gradient, so the parts are added on the way back
        chunks = DTensor.from_local(x.contiguous(), self.mesh, [Shard(axis)])
        return chunks.full_tensor(grad_placements=[Partial()])


class Gathered(Cached):
    """What all ranks brought, and how many slots come after those of this rank's queries."""

    later_slots = 0

    def mask(self, mask: Mask | None) -> Mask | None:
        mask = super().mask(mask)
        return mask if mask is None or self.later_slots == 0 else Earlier(mask, self.later_slots)

    def copy(self) -> Cached:
        return self  # nothing is written to it afterwards


@dataclass(frozen=True)
class Earlier(Mask):
    """A mask for queries that are not the last slots of the keys: ``later`` slots come after theirs.

    >>> from headwise.core import Causal
    >>> Earlier(Causal(), later=2).visible(torch.tensor([2, 3]), torch.arange(4)).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0]], dtype=torch.int32)
    """

    inner: Mask
    later: int

    def visible(
        self, query_slots: Int[Tensor, " query"], key_slots: Int[Tensor, " key"]
    ) -> Bool[Tensor, "*batch query key"]:
        return self.inner.visible(query_slots - self.later, key_slots)

    def reach(self, first_query: int, last_query: int, keys: int) -> tuple[int, int]:
        return self.inner.reach(first_query - self.later, last_query - self.later, keys)

    def check(self, *, batch: int, heads: int, queries: int, keys: int) -> None:
        self.inner.check(batch=batch, heads=heads, queries=queries, keys=keys)

    def __str__(self) -> str:
        return f"{self.inner}, {self.later} slots earlier"
