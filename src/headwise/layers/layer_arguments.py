"""What an attention layer is built with and called with, checked once, with messages that say what to do."""

from __future__ import annotations

from torch import Tensor

from headwise.core import HeadwiseError
from headwise.core.autocast import autocast_is_on
from headwise.core.inputs import check_dropout, check_scale, check_softcap, is_finite_number
from headwise.core.masks.mask import check_mask
from headwise.core.shapes import check_floating, check_positions, check_positive, described, is_one_of
from headwise.layers.gates import OutputGate
from headwise.layers.head_norm import HeadNorm
from headwise.layers.positions import PositionalEncoding
from headwise.layers.positions.encoding import check_encoding
from headwise.layers.sinks import Sinks

_LAYER = "MultiHeadAttention"


def check_sizes(
    others: dict[str, int], *, model_dim: int, heads: int, head_dim: int | None, who: str = _LAYER
) -> None:
    """Refuse sizes that are not counts, and heads that cannot share what there is.

    >>> check_sizes({"kv_heads": 2, "memory_dim": 8}, model_dim=8, heads=4, head_dim=None)
    """
    sizes = {"model_dim": model_dim, "heads": heads, **others}
    if head_dim is not None:
        sizes["head_dim"] = head_dim
    for what, size in sizes.items():
        check_positive(size, who=who, what=what)
    if head_dim is None and model_dim % heads:
        raise HeadwiseError(
            who=who,
            what="model_dim",
            expected=f"a multiple of heads={heads}",
            got=str(model_dim),
            why="Each head gets an equal share of the dimensions",
            do="Change one of the two, or pass head_dim",
        )
    kv_heads = others.get("kv_heads", heads)
    if heads % kv_heads:
        raise HeadwiseError(
            who=who,
            what="heads",
            expected=f"a multiple of kv_heads={kv_heads}",
            got=str(heads),
            why="Each key/value head serves the same number of query heads",
            do="Choose kv_heads that divides heads",
        )


def check_options(
    *,
    position: object,
    mask: object,
    dropout: object,
    scale: object,
    softcap: float | None = None,
    who: str = _LAYER,
) -> None:
    """Refuse an encoding, a mask, or a number that is none.

    >>> check_options(position=None, mask=None, dropout=0.1, softcap=50.0, scale=1.0)
    """
    if position is not None:
        check_encoding(position, who=who)
    if mask is not None:
        check_mask(mask, who=who)
    check_dropout(dropout, who=who)
    check_softcap(softcap, who=who)
    check_scale(scale, who=who)


def check_parts(
    *, head_norm: object, sinks: object, gate: object, model_dim: int, heads: int, value_dim: int
) -> None:
    """Refuse a norm, sinks or a gate of another kind, or of other heads than the layer's.

    >>> check_parts(head_norm=None, sinks=0.0, gate=None, model_dim=32, heads=4, value_dim=8)
    """
    if head_norm is not None and not isinstance(head_norm, HeadNorm):
        raise HeadwiseError(
            who=_LAYER,
            what="head_norm",
            expected="NormBeforeRotation or NormAfterRotation",
            got=_in_one_line(head_norm),
            why="The two orders are different functions, and there is a norm for queries and one for keys",
            do="Pass NormBeforeRotation(nn.RMSNorm(head_dim), nn.RMSNorm(head_dim))",
        )
    of_heads = len(sinks.logits) == heads if isinstance(sinks, Sinks) else is_finite_number(sinks)
    if sinks is not None and not of_heads:
        raise HeadwiseError(
            who=_LAYER,
            what="sinks",
            expected=f"Sinks({heads}) or one finite number",
            got=_in_one_line(sinks),
            why="Each head has a logit that takes part in its softmax",
            do=f"Pass Sinks({heads}) to learn them, 0.0 for the softmax plus one",
        )
    widths = (heads, heads * value_dim)
    sizes = f"GatePerHead({model_dim}, {heads}) or GatePerChannel({model_dim}, {heads}, {value_dim})"
    projection = gate.projection if isinstance(gate, OutputGate) else None
    if gate is not None and (
        projection is None or projection.in_features != model_dim or projection.out_features not in widths
    ):
        raise HeadwiseError(
            who=_LAYER,
            what="gate",
            expected=sizes,
            got=_in_one_line(gate),
            why="Each head, or each channel of its output, has one gate",
            do="Make it with the layer's own sizes",
        )


def check_head_mask(head_mask: object, heads: int, batch: int) -> None:
    """Refuse anything but None or a factor for each head, or for each head of each row.

    >>> check_head_mask(torch.ones(4), 4, 2)
    """
    if head_mask is None:
        return
    fits = isinstance(head_mask, Tensor) and is_one_of(head_mask.shape, (heads,), (1, heads), (batch, heads))
    if fits and isinstance(head_mask, Tensor) and head_mask.is_floating_point():
        return
    raise HeadwiseError(
        who=_LAYER,
        what="head_mask",
        expected=f"floating-point of shape [{heads}] or [{batch}, {heads}]",
        got=described(head_mask),
        why="Each head's output is multiplied by it",
        do="Pass 1.0 to keep a head and 0.0 to silence it",
    )


def check_embeddings(x: Tensor, width: int, weight: Tensor, *, what: str, who: str = _LAYER) -> None:
    """Refuse embeddings (``what`` is "x" or "memory") of another width or dtype than the layer's.

    >>> check_embeddings(torch.zeros(1, 3, 8), 8, torch.zeros(8, 8), what="x")
    """
    name = "model_dim" if what == "x" else "memory_dim"
    check_floating(
        x, f"batch length {name}", who=who, what=what, do="Embed tokens first, and keep the batch axis"
    )
    dtype = x.dtype if autocast_is_on(x.device) else weight.dtype
    if x.shape[-1] != width or x.dtype != dtype:
        raise HeadwiseError(
            who=who,
            what=what,
            expected=f"{str(dtype).removeprefix('torch.')} [batch, length, {name}={width}]",
            got=described(x),
            why=f"The layer was built with {name}={width}, and its weights are {weight.dtype}",
            do="Convert the input, or the layer with layer.to(dtype)",
        )


def token_positions(
    x: Tensor,
    positions: Tensor | None,
    position: PositionalEncoding,
    *,
    what: str = "positions",
    who: str = _LAYER,
) -> Tensor:
    """The positions of the tokens ``x``, as ``position`` takes them: those given, or a count from 0.

    >>> from headwise.layers.positions import NoPosition
    >>> token_positions(torch.zeros(2, 3, 8), None, NoPosition())
    tensor([0, 1, 2])
    """
    if positions is None:
        return position.default_positions(x.shape[1], x.device)
    check_positions(positions, length=x.shape[1], batch=x.shape[0], who=who, what=what, axes=position.axes)
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


def _in_one_line(value: object) -> str:
    return " ".join(repr(value).split())  # modules show themselves in several
