"""One round of a Transformer, and a small factory of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core import HeadwiseError, Mask
from headwise.core.shapes import check_positive, described
from headwise.layers.cache import KVCache, MemoryCache
from headwise.layers.resetting import reset_children
from headwise.layers.transformer.mlp import MLP
from headwise.layers.transformer.residual import PreNorm, Residual

OfWidth = Callable[[int], nn.Module]


class BlockCache(NamedTuple):
    """What one block remembers: the tokens so far, and the memory it reads if it reads one.

    >>> BlockCache(KVCache(), None)
    BlockCache(tokens=KVCache(0 tokens), memory=None)
    """

    tokens: KVCache
    memory: MemoryCache | None


class Block(nn.Module):
    """Tokens look at each other, then at a memory if the block has ``cross``, then each thinks by itself.

    Each part is a `Residual`, which says where its norm stands: ``mlp(cross(attention(x), memory))``.
    Vaswani et al. 2017, arXiv 1706.03762, figure 1. Raises HeadwiseError where a memory is missing or has
    no reader.

    >>> from headwise.layers import MultiHeadAttention
    >>> attention = PreNorm(MultiHeadAttention(8, heads=2), torch.nn.LayerNorm(8))
    >>> Block(attention, PreNorm(MLP(8), torch.nn.LayerNorm(8)))(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, attention: Residual, mlp: Residual, *, cross: Residual | None = None) -> None:
        super().__init__()
        self.attention, self.cross, self.mlp = attention, cross, mlp

    def reset_parameters(self) -> None:
        """Draw the weights of every part anew."""
        reset_children(self)

    def new_cache(self, make: Callable[[], KVCache] = KVCache) -> BlockCache:
        """An empty cache for this block; ``make`` makes the one of its tokens."""
        return BlockCache(make(), None if self.cross is None else MemoryCache())

    def forward(
        self,
        x: Float[Tensor, "batch query model_dim"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        mask: Mask | None = None,
        positions: Int[Tensor, "*batch query"] | None = None,
        memory_mask: Mask | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
        cache: BlockCache | None = None,
    ) -> Float[Tensor, "batch query model_dim"]:
        """``mask`` says which tokens see each other, ``memory_mask`` what they see of the memory.

        With a ``cache``, the tokens of ``x`` come after those that it holds.
        """
        if (memory is None) != (self.cross is None):
            raise HeadwiseError(
                who="Block",
                what="memory",
                expected="None in a block without cross-attention" if self.cross is None else "a tensor",
                got=described(memory),
                why="A memory is read by cross-attention and by nothing else",
                do="Build blocks with cross= for a decoder that reads an encoder, and only for such a one",
            )
        of_tokens = {} if cache is None else {"cache": cache.tokens}
        x = self.attention(x, mask=mask, positions=positions, **of_tokens)
        if self.cross is not None:
            given = {"mask": memory_mask, "positions": positions, "memory_positions": memory_positions}
            of_memory = {} if cache is None else {"cache": cache.memory}
            x = self.cross(x, memory, **given, **of_memory)
        out: Tensor = self.mlp(x)
        return out


def make_blocks(
    depth: int,
    model_dim: int,
    *,
    attention: OfWidth,
    mlp: OfWidth = MLP,
    norm: OfWidth = nn.LayerNorm,
    cross: OfWidth | None = None,
    around: type[Residual] = PreNorm,
    dropout: float = 0.0,
) -> list[Block]:
    """Blocks alike, each with weights of its own.

    Args:
        depth: how many.
        model_dim: the width, which every factory is called with.
        attention: makes an attention layer; ``functools.partial`` fills in its other arguments. An encoding
            given there is one object in all the blocks, as T5 and MPNet share theirs; a lambda makes one
            for each.
        mlp: makes what follows attention, such as ``partial(GatedMLP, hidden_dim=1536)``.
        norm: makes each norm, such as ``partial(nn.RMSNorm, eps=1e-6)``.
        cross: makes the layer that reads a memory; none unless given.
        around: where the norm stands, `PreNorm` or `PostNorm`.
        dropout: share of each layer's output dropped in training.

    Raises HeadwiseError if depth or model_dim is below 1, and what the parts raise.

    >>> from functools import partial
    >>> from headwise.layers import MultiHeadAttention, Rotary
    >>> blocks = make_blocks(3, 8, attention=partial(MultiHeadAttention, heads=2, position=Rotary()))
    >>> len(blocks), blocks[0].attention.layer.position is blocks[2].attention.layer.position
    (3, True)
    """
    check_positive(depth, who="make_blocks", what="depth")
    check_positive(model_dim, who="make_blocks", what="model_dim")

    def wrapped(make: OfWidth) -> Residual:
        return around(make(model_dim), norm(model_dim), dropout)

    return [
        Block(wrapped(attention), wrapped(mlp), cross=None if cross is None else wrapped(cross))
        for _ in range(depth)
    ]
