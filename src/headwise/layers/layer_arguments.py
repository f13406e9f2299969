"""What an attention layer is built with and called with, checked once, with messages that say what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.core.autocast import autocast_is_on
from headwise.core.inputs import check_dropout
from headwise.core.masks.mask import check_mask
from headwise.core.shapes import check_floating, check_positions, check_positive, described
from headwise.layers.positions import PositionalEncoding
from headwise.layers.positions.encoding import check_encoding

_LAYER = "MultiHeadAttention"


def check_sizes(*, model_dim: int, heads: int, head_dim: int | None, **others: int) -> None:
    """Refuse sizes that are not counts, and heads that cannot share what there is.

    >>> check_sizes(model_dim=8, heads=4, head_dim=None, kv_heads=2, memory_dim=8)
    """
    sizes = {"model_dim": model_dim, "heads": heads, **others}
    if head_dim is not None:
        sizes["head_dim"] = head_dim
    for what, size in sizes.items():
        check_positive(size, who=_LAYER, what=what)
    if head_dim is None and model_dim % heads:
        raise HeadwiseError(
            who=_LAYER,
            what="model_dim",
            expected=f"a multiple of heads={heads}",
            got=str(model_dim),
            why="Each head gets an equal share of the dimensions",
            do="Change one of the two, or pass head_dim",
        )
    if heads % others["kv_heads"]:
        raise HeadwiseError(
            who=_LAYER,
            what="heads",
            expected=f"a multiple of kv_heads={others['kv_heads']}",
            got=str(heads),
            why="Each key/value head serves the same number of query heads",
            do="Choose kv_heads that divides heads",
        )


def check_options(*, position: object, mask: object, dropout: object) -> None:
    """Refuse an encoding, a mask or a dropout rate that is none.

    >>> check_options(position=None, mask=None, dropout=0.1)
    """
    if position is not None:
        check_encoding(position, who=_LAYER)
    if mask is not None:
        check_mask(mask, who=_LAYER)
    check_dropout(dropout, who=_LAYER)


def check_embeddings(x: Tensor, width: int, weight: Tensor, *, what: str) -> None:
    """Refuse embeddings (``what`` is "x" or "memory") of another width or dtype than the layer's.

    >>> check_embeddings(torch.zeros(1, 3, 8), 8, torch.zeros(8, 8), what="x")
    """
    name = "model_dim" if what == "x" else "memory_dim"
    check_floating(
        x, f"batch length {name}", who=_LAYER, what=what, do="Embed tokens first, and keep the batch axis"
    )
    dtype = x.dtype if autocast_is_on(x.device) else weight.dtype
    if x.shape[-1] != width or x.dtype != dtype:
        raise HeadwiseError(
            who=_LAYER,
            what=what,
            expected=f"{str(dtype).removeprefix('torch.')} [batch, length, {name}={width}]",
            got=described(x),
            why=f"The layer was built with {name}={width}, and its weights are {weight.dtype}",
            do="Convert the input, or the layer with layer.to(dtype)",
        )


def token_positions(
    x: Tensor, positions: Tensor | None, position: PositionalEncoding, *, what: str = "positions"
) -> Tensor:
    """The positions of the tokens ``x``, as ``position`` takes them: those given, or a count from 0.

    >>> from headwise.layers.positions import NoPosition
    >>> token_positions(torch.zeros(2, 3, 8), None, NoPosition())
    tensor([0, 1, 2])
    """
    if positions is None:
        return torch.arange(x.shape[1], device=x.device)
    check_positions(positions, length=x.shape[1], batch=x.shape[0], who=_LAYER, what=what)
    return positions


def refuse_lone_memory_positions(memory_positions: Tensor | None) -> None:
    """Refuse positions of a memory where there is none.

    >>> refuse_lone_memory_positions(None)
    """
    if memory_positions is None:
        return
    raise HeadwiseError(
        who=_LAYER,
        what="memory_positions",
        expected="None without a memory",
        got=described(memory_positions),
        why="In self-attention the keys stand where the queries do",
        do="Pass positions alone, or memory too",
    )
