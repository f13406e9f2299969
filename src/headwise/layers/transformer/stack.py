"""Blocks one after the other: an encoder sees the whole text, a decoder what came before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core import Causal, HeadwiseError, Mask
from headwise.layers.cache import KVCache
from headwise.layers.resetting import reset_children
from headwise.layers.transformer.block import Block, BlockCache


class Stack(nn.Module):
    """Blocks one after the other, then a norm if there is one.

    Args:
        blocks: `Block` objects, from `make_blocks` or made one by one where they differ.
        norm: after the last block. Blocks with `PreNorm` need one; those with `PostNorm` end with their own.

    >>> Stack([], norm=torch.nn.LayerNorm(8))(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, blocks: Iterable[Block], *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def reset_parameters(self) -> None:
        """Draw the weights of every block and of the norm anew."""
        reset_children(self)

    @property
    def axes(self) -> int:
        """How many numbers a position has for its attention layers: 1, or more for rows and columns."""
        positions = (getattr(layer, "position", None) for layer in self.modules())
        return max((position.axes for position in positions if position is not None), default=1)

    def new_cache(self, make: Callable[[], KVCache] = KVCache) -> list[BlockCache]:
        """An empty cache for each block; ``make`` may be ``partial(RingCache, window=128)``, say."""
        return [cast(Block, block).new_cache(make) for block in self.blocks]

    def forward(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        positions: Int[Tensor, "*batch query"] | None = None,
        memory_mask: Mask | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
        cache: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "batch query model_dim"]:
        """All blocks get the same masks, positions and memory, and each its own cache, from `new_cache`."""
        caches = _one_for_each(self.blocks, cache)
        for block, own in zip(self.blocks, caches, strict=True):
            x = block(
                x,
                memory,
                mask=mask,
                positions=positions,
                memory_mask=memory_mask,
                memory_positions=memory_positions,
                cache=own,
            )
        return x if self.norm is None else self.norm(x)


class Encoder(Stack):
    """Every token sees every other one, before it and after it.

    Vaswani et al. 2017, arXiv 1706.03762, section 3.1. The arguments are those of `Stack`.

    >>> from functools import partial
    >>> from headwise.layers import MultiHeadAttention, make_blocks
    >>> blocks = make_blocks(2, 8, attention=partial(MultiHeadAttention, heads=2))
    >>> encoder = Encoder(blocks, norm=torch.nn.LayerNorm(8))
    >>> encoder(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """


class Decoder(Stack):
    """A token sees itself and what came before; with ``cross`` in its blocks it reads a memory as well.

    The causal mask is the decoder's own, and a call's mask is combined with it. Vaswani et al. 2017, arXiv
    1706.03762, section 3.1. The arguments are those of `Stack`.

    >>> from functools import partial
    >>> from headwise.layers import MultiHeadAttention, make_blocks
    >>> attention = partial(MultiHeadAttention, heads=2)
    >>> decoder = Decoder(make_blocks(2, 8, attention=attention, cross=attention), norm=torch.nn.LayerNorm(8))
    >>> decoder(torch.randn(2, 5, 8), torch.randn(2, 7, 8)).shape
    torch.Size([2, 5, 8])
    """

    def forward(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        positions: Int[Tensor, "*batch query"] | None = None,
        memory_mask: Mask | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
        cache: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "batch query model_dim"]:
        """All blocks get the same masks, positions and memory, and each its own cache, from `new_cache`."""
        return super().forward(
            x,
            memory,
            mask=Causal() if mask is None else Causal() & mask,
            positions=positions,
            memory_mask=memory_mask,
            memory_positions=memory_positions,
            cache=cache,
        )


def _one_for_each(
    blocks: nn.ModuleList, cache: Sequence[BlockCache] | None
) -> Sequence[BlockCache] | list[None]:
    if cache is None:
        return [None] * len(blocks)
    if isinstance(cache, Sequence) and len(cache) == len(blocks):
        return cache
    raise HeadwiseError(
        who="Stack",
        what="cache",
        expected=f"a list of {len(blocks)}, one for each block",
        got=f"{len(cache)} of them" if isinstance(cache, Sequence) else type(cache).__name__,
        why="Layers see different keys, so each remembers its own",
        do="Take one from new_cache(), and pass the same one at each step",
    )
