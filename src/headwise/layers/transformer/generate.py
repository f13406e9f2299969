"""Text, one token after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn.functional import pad

from headwise.core import HeadwiseError, Mask
from headwise.core.masks import Padding
from headwise.core.shapes import check_positive, described
from headwise.layers.cache import KVCache
from headwise.layers.transformer.picking import Greedy, Pick
from headwise.layers.transformer.token_model import LanguageModel

GREEDY = Greedy()


@torch.no_grad()
def generate(
    model: LanguageModel,
    tokens: Int[Tensor, "batch length"],
    count: int,
    *,
    keep: Bool[Tensor, "batch length"] | None = None,
    pick: Pick = GREEDY,
    stop: int | None = None,
    generator: Generator | None = None,
    memory: Float[Tensor, "batch key memory_dim"] | None = None,
    memory_mask: Mask | None = None,
    memory_positions: Int[Tensor, "*batch key"] | None = None,
    make_cache: Callable[[], KVCache] | None = KVCache,
) -> Int[Tensor, "batch longer"]:
    """The tokens and up to ``count`` more, each picked by the scores that the model gives after the last.

    The model is in evaluation for that long. Rows of unequal length are padded on the left, with ``keep``
    True for real tokens; each row comes out as it would alone.

    Args:
        model: a `LanguageModel` over a `Decoder`.
        tokens: what is there already, at least one token in a row.
        count: the most tokens to add.
        keep: which tokens are real; all of them unless given.
        pick: `Greedy` or `Sample`, or a function of the scores ``[batch vocabulary]`` and the generator.
        stop: a row that has picked this token is done, and goes on with it; once all are done, so is the
            call.
        generator: where `Sample` draws from; the same seed gives the same text.
        memory: what a decoder with cross-attention reads, such as ``transformer.encoder(source)``.
        memory_mask: which of it is real.
        memory_positions: where its tokens stand.
        make_cache: makes the cache of each layer, such as ``partial(RingCache, window=128)``. With None
            there is no cache, and each step reads the whole text again: for encodings whose keys do not
            stay valid.

    Raises HeadwiseError if there is no token to start with, if a row ends in padding, or if count is below 1.

    >>> from functools import partial
    >>> from headwise.layers import Decoder, MultiHeadAttention, Rotary, Sample, TokenEmbedding, make_blocks
    >>> blocks = make_blocks(2, 8, attention=partial(MultiHeadAttention, heads=2, position=Rotary()))
    >>> model = LanguageModel(TokenEmbedding(100, 8), Decoder(blocks, norm=torch.nn.LayerNorm(8)))
    >>> start = torch.tensor([[5, 17, 3]])
    >>> generate(model, start, 4, pick=Sample(top_k=5), generator=torch.Generator().manual_seed(0)).shape
    torch.Size([1, 7])
    """
    check_positive(count, who="generate", what="count")
    _check_ends(tokens, keep)
    cache = None if make_cache is None else model.new_cache(make_cache)
    done = torch.zeros_like(tokens[:, 0], dtype=torch.bool)
    unread, unread_keep = tokens, keep
    with evaluation(model):
        for _ in range(count):
            hidden = model.hidden(
                unread,
                memory,
                keep=unread_keep,
                memory_mask=memory_mask,
                memory_positions=memory_positions,
                cache=cache,
            )
            new = pick(model.logits(hidden[:, -1]), generator)
            if stop is not None:
                new = new.masked_fill(done, stop)
                done = done | (new == stop)
            tokens = torch.cat((tokens, new[:, None]), dim=1)
            if stop is not None and bool(done.all()):
                break
            unread, unread_keep = (
                (tokens, _lengthened(keep, tokens)) if cache is None else (new[:, None], None)
            )
    return tokens


def _lengthened(keep: Tensor | None, tokens: Tensor) -> Tensor | None:
    """The new tokens are real ones."""
    return None if keep is None else pad(keep, (0, tokens.shape[1] - keep.shape[1]), value=True)


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation for a while; afterwards each part is in the mode it was in.

    >>> dropout = torch.nn.Dropout(0.5)
    >>> with evaluation(dropout):
    ...     dropout(torch.ones(3)).tolist(), dropout.training
    ([1.0, 1.0, 1.0], False)
    >>> dropout.training
    True
    """
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _check_ends(tokens: Tensor, keep: Tensor | None) -> None:
    if keep is not None:
        Padding(keep).check(batch=tokens.shape[0], heads=1, queries=tokens.shape[1], keys=tokens.shape[1])
    if tokens.shape[1] and (keep is None or bool(keep[:, -1].all())):
        return
    raise HeadwiseError(
        who="generate",
        what="tokens",
        expected="at least one token in each row, and the last one real",
        got=described(tokens) if not tokens.shape[1] else "a row that ends in padding",
        why="The next token follows the last one",
        do="Start with a token such as the one for the beginning of a text, and pad on the left",
    )
