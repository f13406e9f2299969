"""Tokens in, vectors out; and the same with a score for each token that may come next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from headwise.core import Mask, Padding
from headwise.layers.cache import KVCache
from headwise.layers.resetting import reset_children
from headwise.layers.transformer.block import BlockCache
from headwise.layers.transformer.stack import Stack
from headwise.layers.transformer.token_embedding import TokenEmbedding


class TokenModel(nn.Module):
    """``stack(embedding(tokens))``: the vectors of the last layer, one for each token.

    Devlin et al. 2018, arXiv 1810.04805, section 3, with an `Encoder`. Raises what its parts raise.

    >>> from functools import partial
    >>> from headwise.layers import Encoder, Learned, MultiHeadAttention, PostNorm, make_blocks
    >>> embedding = TokenEmbedding(100, 8, position=Learned(16, 8), segments=2, norm=torch.nn.LayerNorm(8))
    >>> blocks = make_blocks(2, 8, attention=partial(MultiHeadAttention, heads=2), around=PostNorm)
    >>> TokenModel(embedding, Encoder(blocks))(torch.tensor([[5, 17, 3]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, embedding: TokenEmbedding, stack: Stack) -> None:
        super().__init__()
        self.embedding, self.stack = embedding, stack

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        reset_children(self)

    def new_cache(self, make: Callable[[], KVCache] = KVCache) -> list[BlockCache]:
        """An empty cache for each block; ``make`` makes the one of its tokens."""
        return self.stack.new_cache(make)

    def hidden(
        self,
        tokens: Int[Tensor, "batch length"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        keep: Bool[Tensor, "batch length"] | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
        positions: Int[Tensor, "*batch length"] | None = None,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
        cache: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        """The vectors of the last layer.

        ``keep`` is True for real tokens: padding is not seen, and positions count real tokens alone unless
        they are given. A mask is combined with that. With a ``cache``, all of these speak of the new tokens,
        which come after those that it holds.
        """
        given = positions is not None
        if positions is None and cache:
            positions = cache[0].tokens.next_positions(tokens.shape[1], keep, device=tokens.device)
        if keep is not None:
            padding = Padding(keep)
            padding.check(batch=tokens.shape[0], heads=1, queries=tokens.shape[1], keys=tokens.shape[1])
            positions = padding.positions() if positions is None else positions
            mask = padding if mask is None else padding & mask
        x = self.embedding(tokens, segments=segments, positions=positions)
        if positions is not None and not given and self.stack.axes > 1:  # text stands alike on every axis
            positions = positions[..., None].expand(*positions.shape, self.stack.axes)
        out: Tensor = self.stack(
            x,
            memory,
            mask=mask,
            positions=positions,
            memory_mask=memory_mask,
            memory_positions=memory_positions,
            cache=cache,
        )
        return out

    forward = hidden


class LanguageModel(TokenModel):
    """``logits = scale * output(hidden)``; without output, the token table E is tied: ``scale * hidden E^T``.

    Press and Wolf 2017, arXiv 1608.05859, for tied tables. A tied table is one parameter, so it stays tied
    when it is copied, saved, or moved. T5 scales tied logits by ``model_dim**-0.5``.

    Args:
        embedding: of the tokens.
        stack: a `Decoder`, where the model is to write.
        output: from model_dim to the vocabulary, such as ``nn.Linear(model_dim, vocabulary, bias=False)``.
        scale: of the logits.

    Raises what its parts raise.

    >>> from functools import partial
    >>> from headwise.layers import Decoder, MultiHeadAttention, Rotary, make_blocks
    >>> blocks = make_blocks(2, 8, attention=partial(MultiHeadAttention, heads=2, position=Rotary()))
    >>> model = LanguageModel(TokenEmbedding(100, 8), Decoder(blocks, norm=torch.nn.LayerNorm(8)))
    >>> model(torch.tensor([[5, 17, 3]])).shape
    torch.Size([1, 3, 100])
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        stack: Stack,
        output: nn.Module | None = None,
        *,
        scale: float = 1.0,
    ) -> None:
        super().__init__(embedding, stack)
        self.output, self.scale = output, scale

    def logits(self, hidden: Float[Tensor, "*batch model_dim"]) -> Float[Tensor, "*batch vocabulary"]:
        """A score for each token of the vocabulary."""
        if self.output is None:
            scores = functional.linear(hidden, self.embedding.token.weight)
        else:
            scores = self.output(hidden)
        return scores if self.scale == 1.0 else scores * self.scale

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        memory: Float[Tensor, "batch key memory_dim"] | None = None,
        *,
        keep: Bool[Tensor, "batch length"] | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
        positions: Int[Tensor, "*batch length"] | None = None,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        memory_positions: Int[Tensor, "*batch key"] | None = None,
        cache: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "batch length vocabulary"]:
        """At each place, the scores of the token after it. The arguments are those of `TokenModel.hidden`."""
        hidden = self.hidden(
            tokens,
            memory,
            keep=keep,
            segments=segments,
            positions=positions,
            mask=mask,
            memory_mask=memory_mask,
            memory_positions=memory_positions,
            cache=cache,
        )
        return self.logits(hidden)
