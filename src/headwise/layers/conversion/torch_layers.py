"""PyTorch's encoder and decoder layers, and stacks of them, to ours."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

from headwise.core.errors import HeadwiseError
from headwise.layers.conversion.torch_attention import attention_from_torch
from headwise.layers.transformer.block import Block
from headwise.layers.transformer.mlp import MLP
from headwise.layers.transformer.residual import PostNorm, PreNorm, Residual
from headwise.layers.transformer.stack import Decoder, Encoder

S = TypeVar("S", Encoder, Decoder)


def block_from_torch(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Block:
    """Our block with a copy of the weights of PyTorch's encoder or decoder layer.

    It takes the batch first. Raises HeadwiseError for another class, since a subclass may be another formula,
    and for what `attention_from_torch` refuses.

    >>> theirs = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()
    >>> x = torch.randn(2, 5, 8)
    >>> torch.allclose(block_from_torch(theirs)(x), theirs(x), atol=1e-6)
    True
    """
    if type(layer) not in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        expected = "an nn.TransformerEncoderLayer or an nn.TransformerDecoderLayer"
        raise _another_class(layer, expected, who="block_from_torch")
    around = PreNorm if layer.norm_first else PostNorm
    norms, rates = [layer.norm1, layer.norm2], [layer.dropout1.p, layer.dropout2.p]
    parts: list[nn.Module] = [attention_from_torch(layer.self_attn)]
    if isinstance(layer, nn.TransformerDecoderLayer):
        parts.append(attention_from_torch(layer.multihead_attn))
        norms, rates = [*norms, layer.norm3], [*rates, layer.dropout3.p]
    parts.append(_mlp(layer))
    wrapped = [
        around(part, copy.deepcopy(norm), rate) for part, norm, rate in zip(parts, norms, rates, strict=True)
    ]
    attention, mlp = wrapped[0], wrapped[-1]
    cross: Residual | None = wrapped[1] if len(wrapped) == 3 else None
    return Block(attention, mlp, cross=cross).train(layer.training)


def encoder_from_torch(stack: nn.TransformerEncoder) -> Encoder:
    """Our encoder with a copy of the weights of ``nn.TransformerEncoder``.

    Raises HeadwiseError for another class, and for what `block_from_torch` refuses.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    >>> x = torch.randn(2, 5, 8)
    >>> torch.allclose(encoder_from_torch(theirs)(x), theirs(x), atol=1e-6)
    True
    """
    if type(stack) is not nn.TransformerEncoder:
        raise _another_class(stack, "an nn.TransformerEncoder", who="encoder_from_torch")
    return _stack(Encoder, stack)


def decoder_from_torch(stack: nn.TransformerDecoder) -> Decoder:
    """Our decoder with a copy of the weights of ``nn.TransformerDecoder``.

    Ours is causal by itself: it gives what PyTorch's gives with a causal ``tgt_mask``. Raises HeadwiseError
    for another class, and for what `block_from_torch` refuses.

    >>> theirs = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2).eval()
    >>> x, memory = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    >>> hidden = torch.ones(5, 5).triu(1).bool()
    >>> given = theirs(x, memory, tgt_mask=hidden)
    >>> torch.allclose(decoder_from_torch(theirs)(x, memory), given, atol=1e-6)
    True
    """
    if type(stack) is not nn.TransformerDecoder:
        raise _another_class(stack, "an nn.TransformerDecoder", who="decoder_from_torch")
    return _stack(Decoder, stack)


def _stack(make: type[S], stack: nn.TransformerEncoder | nn.TransformerDecoder) -> S:
    blocks = [block_from_torch(layer) for layer in stack.layers]
    return make(blocks, norm=copy.deepcopy(stack.norm)).train(stack.training)


def _mlp(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> MLP:
    inner, outer = copy.deepcopy(layer.linear1), copy.deepcopy(layer.linear2)
    mlp = MLP(1, 1, activation=layer.activation, dropout=layer.dropout.p)  # its two projections are replaced
    mlp.inner, mlp.outer = inner, outer
    return mlp


def _another_class(found: object, expected: str, *, who: str) -> HeadwiseError:
    return HeadwiseError(
        who=who,
        what="the layer",
        expected=expected,
        got=type(found).__name__,
        why="A subclass may be another formula",
        do="Convert its attention with attention_from_torch and build the block from headwise's parts",
    )
