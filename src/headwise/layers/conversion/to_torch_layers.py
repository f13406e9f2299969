"""Our blocks and stacks to PyTorch's encoder and decoder layers."""

from __future__ import annotations

import copy
from typing import TypeVar, cast

import torch
from torch import nn

from headwise.core.errors import HeadwiseError
from headwise.layers.conversion.torch_attention import attention_to_torch
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.transformer.block import Block
from headwise.layers.transformer.mlp import MLP
from headwise.layers.transformer.residual import PostNorm, PreNorm, Residual
from headwise.layers.transformer.stack import Decoder, Encoder, Stack

T = TypeVar("T", nn.TransformerEncoder, nn.TransformerDecoder)


def block_to_torch(
    block: Block, *, batch_first: bool = True
) -> nn.TransformerEncoderLayer | nn.TransformerDecoderLayer:
    """PyTorch's encoder layer with a copy of our weights, or its decoder layer for a block with ``cross``.

    Raises HeadwiseError for whatever PyTorch's layers cannot do: gated MLPs, norms that are no LayerNorm,
    PreNorm and PostNorm in one block, biases in some parts alone, and what `attention_to_torch` refuses.

    >>> from headwise.layers import make_blocks
    >>> from functools import partial
    >>> ours = make_blocks(1, 8, attention=partial(MultiHeadAttention, heads=2))[0].eval()
    >>> x = torch.randn(2, 5, 8)
    >>> torch.allclose(block_to_torch(ours)(x), ours(x), atol=1e-6)
    True
    """
    parts = [part for part in (block.attention, block.cross, block.mlp) if part is not None]
    _check_block(block, parts)
    attention, mlp = cast(MultiHeadAttention, block.attention.layer), cast(MLP, block.mlp.layer)
    make = nn.TransformerEncoderLayer if block.cross is None else nn.TransformerDecoderLayer
    theirs = make(
        attention.model_dim,
        attention.heads,
        mlp.inner.out_features,
        dropout=mlp.dropout.p,
        activation=mlp.activation,
        batch_first=batch_first,
        norm_first=isinstance(block.attention, PreNorm),
        bias=mlp.inner.bias is not None,
        device="meta",
    )
    theirs.self_attn = attention_to_torch(attention, batch_first=batch_first)
    theirs.linear1, theirs.linear2 = copy.deepcopy(mlp.inner), copy.deepcopy(mlp.outer)
    if isinstance(theirs, nn.TransformerDecoderLayer) and block.cross is not None:
        cross = cast(MultiHeadAttention, block.cross.layer)
        theirs.multihead_attn = attention_to_torch(cross, batch_first=batch_first)
    for number, part in enumerate(parts, start=1):
        setattr(theirs, f"norm{number}", copy.deepcopy(part.norm))
        setattr(theirs, f"dropout{number}", nn.Dropout(part.dropout.p))
    if getattr(mlp.activation, "approximate", "none") != "none":
        theirs.activation_relu_or_gelu = 0  # PyTorch's fast path takes any nn.GELU for the exact one
    return theirs.train(block.training)


def encoder_to_torch(stack: Encoder, *, batch_first: bool = True) -> nn.TransformerEncoder:
    """``nn.TransformerEncoder`` with a copy of our weights. Raises what `block_to_torch` raises.

    >>> encoder_to_torch(Encoder([])).layers
    ModuleList()
    """
    theirs = nn.TransformerEncoder(_placeholder(), 0, enable_nested_tensor=False)
    return _filled(theirs, stack, batch_first)


def decoder_to_torch(stack: Decoder, *, batch_first: bool = True) -> nn.TransformerDecoder:
    """``nn.TransformerDecoder`` with a copy of our weights, for blocks that read a memory.

    PyTorch's is causal only where a call's ``tgt_mask`` says so. Raises what `block_to_torch` raises.

    >>> decoder_to_torch(Decoder([])).layers
    ModuleList()
    """
    theirs = nn.TransformerDecoder(cast(nn.TransformerDecoderLayer, _placeholder()), 0)
    return _filled(theirs, stack, batch_first)


def _filled(theirs: T, stack: Stack, batch_first: bool) -> T:
    blocks = [block_to_torch(cast(Block, block), batch_first=batch_first) for block in stack.blocks]
    if isinstance(stack, Decoder) and any(isinstance(block, nn.TransformerEncoderLayer) for block in blocks):
        raise _refused("blocks", "with cross-attention", "a block without")
    theirs.layers, theirs.num_layers = nn.ModuleList(blocks), len(blocks)
    theirs.norm = copy.deepcopy(stack.norm)
    return theirs.train(stack.training)


def _placeholder() -> nn.TransformerEncoderLayer:
    with torch.device("meta"):
        return nn.TransformerEncoderLayer(1, 1, 1, batch_first=True)


def _check_block(block: Block, parts: list[Residual]) -> None:
    attentions = [part.layer for part in parts[:-1]]
    if len({type(part) for part in parts}) > 1 or type(parts[0]) not in (PreNorm, PostNorm):
        names = ", ".join(type(part).__name__ for part in parts)
        raise _refused("norms", "all before or all after their layers", names)
    for layer in attentions:
        if type(layer) is not MultiHeadAttention:
            raise _refused("attention", "MultiHeadAttention", type(layer).__name__)
    mlp = parts[-1].layer
    if type(mlp) is not MLP:
        raise _refused("mlp", "MLP", type(mlp).__name__)
    for part in parts:
        if type(part.norm) is not nn.LayerNorm:
            raise _refused("norm", "nn.LayerNorm", type(part.norm).__name__)
    biased = [mlp.inner, mlp.outer, *(layer.query for layer in attentions), *(part.norm for part in parts)]
    if len({getattr(part, "bias", None) is None for part in biased}) > 1:
        raise _refused("biases", "in all parts or in none", "in some")


def _refused(what: str, expected: str, got: str) -> HeadwiseError:
    return HeadwiseError(
        who="block_to_torch",
        what=what,
        expected=expected,
        got=got,
        why="PyTorch's layers have no other kind",
        do="Keep headwise's block here",
    )
