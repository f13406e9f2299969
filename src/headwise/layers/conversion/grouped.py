"""Query heads that share a key/value head: side by side, or one round after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive

Sharing = Literal["blocks", "tiles"]


def tiles_to_blocks(weight: Tensor, heads: int, kv_heads: int, *, dim: int = 0) -> Tensor:
    """Query heads that shared by ``h % kv_heads``, in the order that shares by ``h // (heads / kv_heads)``.

    headwise, PyTorch and Hugging Face share in blocks: of six query heads over two, the first three read the
    first. Reorder the rows of the query projection, its bias too, and with ``dim=1`` the columns of the
    output projection. Raises HeadwiseError if heads do not share or rows do not divide.

    >>> tiles_to_blocks(torch.arange(6), heads=6, kv_heads=2)
    tensor([0, 2, 4, 1, 3, 5])
    """
    given = (heads // max(kv_heads, 1), kv_heads)
    return _regrouped(weight, heads, kv_heads, dim, given, who="tiles_to_blocks")


def blocks_to_tiles(weight: Tensor, heads: int, kv_heads: int, *, dim: int = 0) -> Tensor:
    """The inverse of `tiles_to_blocks`.

    >>> blocks_to_tiles(torch.tensor([0, 2, 4, 1, 3, 5]), heads=6, kv_heads=2)
    tensor([0, 1, 2, 3, 4, 5])
    """
    given = (kv_heads, heads // max(kv_heads, 1))
    return _regrouped(weight, heads, kv_heads, dim, given, who="blocks_to_tiles")


def sharing(attend: Callable[[Tensor, Tensor, Tensor], Tensor], heads: int, kv_heads: int) -> Sharing:
    """How some attention function shares, found by values that hold the number of their head.

    ``attend`` takes q ``[1, heads, 1, 2]``, k and v ``[1, kv_heads, 1, 2]`` and gives the heads' outputs.
    With one key/value head, or as many as there are queries, both are the same: "blocks". Raises
    HeadwiseError if it shares in neither way.

    >>> def repeats(q, k, v):
    ...     return v.repeat(1, q.shape[1] // v.shape[1], 1, 1)
    >>> sharing(repeats, heads=6, kv_heads=2)
    'tiles'
    """
    _check_share(heads, kv_heads, who="sharing")
    numbers = torch.arange(kv_heads).float()[None, :, None, None].expand(1, kv_heads, 1, 2)
    read = attend(torch.zeros(1, heads, 1, 2), torch.zeros(1, kv_heads, 1, 2), numbers)
    found = read.flatten().view(-1, 2)[:, 0].round().long()
    count = torch.arange(heads)
    if torch.equal(found, count // (heads // kv_heads)):
        return "blocks"
    if torch.equal(found, count % kv_heads):
        return "tiles"
    raise HeadwiseError(
        who="sharing",
        what="what attend gives",
        expected=f"{heads} heads that read {kv_heads} in blocks or in tiles",
        got=f"heads that read {found.tolist()}",
        why="No other way to share is known",
        do="Check heads and kv_heads, and that attend gives [1, heads, 1, 2]",
    )


def _regrouped(
    weight: Tensor, heads: int, kv_heads: int, dim: int, given: tuple[int, int], *, who: str
) -> Tensor:
    _check_share(heads, kv_heads, who=who)
    if not -weight.dim() <= dim < weight.dim() or weight.shape[dim] % heads:
        raise HeadwiseError(
            who=who,
            what="the weight",
            expected=f"a multiple of {heads} heads along dim={dim}",
            got=f"of shape {list(weight.shape)}",
            why="Whole heads change places",
            do="Pass the query projection's weight or bias, or the output's weight with dim=1",
        )
    dim = dim % weight.dim()
    before, after = weight.shape[:dim], weight.shape[dim + 1 :]
    width = weight.shape[dim] // heads
    return weight.reshape(*before, *given, width, *after).transpose(dim, dim + 1).reshape(weight.shape)


def _check_share(heads: int, kv_heads: int, *, who: str) -> None:
    check_positive(heads, who=who, what="heads")
    check_positive(kv_heads, who=who, what="kv_heads")
    if heads % kv_heads:
        raise HeadwiseError(
            who=who,
            what="heads",
            expected=f"a multiple of kv_heads={kv_heads}",
            got=str(heads),
            why="Each key/value head is shared by as many query heads",
            do="Check the model's configuration",
        )
