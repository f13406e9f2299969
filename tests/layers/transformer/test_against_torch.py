"""Blocks and stacks against PyTorch's own with the same weights, in float64, gradients included."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.core import Causal, Padding
from headwise.layers import MLP, Decoder, Encoder, MultiHeadAttention, PostNorm, PreNorm, make_blocks

# Two layers of sums of at most 24 terms of size about 1, in another order: 1e-16 grows to some 1e-14.
EXACT = {"rtol": 0.0, "atol": 1e-12}
MODEL_DIM, HEADS, HIDDEN, DEPTH = 12, 3, 24, 2
KEEP = torch.tensor([[True, True, True, False, False], [True] * 5])
ORDERS = {"pre-norm": PreNorm, "post-norm": PostNorm}
ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


def ours(around, activation="relu", cross=False):
    attention = partial(MultiHeadAttention, heads=HEADS)
    blocks = make_blocks(
        DEPTH,
        MODEL_DIM,
        attention=attention,
        mlp=partial(MLP, hidden_dim=HIDDEN, activation=ACTIVATIONS[activation]),
        cross=attention if cross else None,
        around=around,
    )
    norm = nn.LayerNorm(MODEL_DIM) if around is PreNorm else None
    return (Decoder if cross else Encoder)(blocks, norm=norm).double()


def theirs(around, activation="relu", cross=False):
    kind = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    layer = kind(
        MODEL_DIM,
        HEADS,
        HIDDEN,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=around is PreNorm,
    )
    norm = nn.LayerNorm(MODEL_DIM) if around is PreNorm else None
    if cross:
        stack = nn.TransformerDecoder(layer, DEPTH, norm)
    else:
        stack = nn.TransformerEncoder(layer, DEPTH, norm, enable_nested_tensor=False)
    return stack.double()


def copy_attention(mine, their):
    for projection, weight, bias in zip(
        (mine.query, mine.key, mine.value),
        their.in_proj_weight.chunk(3),
        their.in_proj_bias.chunk(3),
        strict=True,
    ):
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    mine.output.load_state_dict(their.out_proj.state_dict())


@torch.no_grad()
def same_weights(mine, their):
    for parameter in their.parameters():
        parameter.copy_(0.4 * torch.randn_like(parameter) + (parameter.dim() == 1))
    for block, layer in zip(mine.blocks, their.layers, strict=True):
        copy_attention(block.attention.layer, layer.self_attn)
        block.mlp.layer.inner.load_state_dict(layer.linear1.state_dict())
        block.mlp.layer.outer.load_state_dict(layer.linear2.state_dict())
        parts = [block.attention, block.mlp]
        if block.cross is not None:
            copy_attention(block.cross.layer, layer.multihead_attn)
            parts.insert(1, block.cross)
        for number, part in enumerate(parts, start=1):
            part.norm.load_state_dict(getattr(layer, f"norm{number}").state_dict())
    if mine.norm is not None:
        mine.norm.load_state_dict(their.norm.state_dict())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("padded", [False, True])
def test_encoder(order, activation, padded):
    mine, their = ours(ORDERS[order], activation), theirs(ORDERS[order], activation)
    same_weights(mine, their)
    x = torch.randn(2, 5, MODEL_DIM).double().requires_grad_()
    also_x = x.detach().clone().requires_grad_()
    output = mine(x, mask=Padding(KEEP) if padded else None)
    expected = their(also_x, src_key_padding_mask=~KEEP if padded else None)
    real = KEEP if padded else torch.ones_like(KEEP)
    torch.testing.assert_close(output[real], expected[real], **EXACT)
    mixture = torch.randn_like(output) * real[..., None]
    (output * mixture).sum().backward()
    (expected * mixture).sum().backward()
    torch.testing.assert_close(x.grad, also_x.grad, **EXACT)
    ours_grad = mine.blocks[0].mlp.layer.inner.weight.grad
    torch.testing.assert_close(ours_grad, their.layers[0].linear1.weight.grad, **EXACT)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("padded", [False, True])
def test_decoder_with_a_memory(order, padded):
    mine, their = ours(ORDERS[order], cross=True), theirs(ORDERS[order], cross=True)
    same_weights(mine, their)
    x, memory = torch.randn(2, 4, MODEL_DIM).double(), torch.randn(2, 5, MODEL_DIM).double()
    output = mine(x, memory, memory_mask=Padding(KEEP) if padded else None)
    expected = their(
        x,
        memory,
        tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1),
        memory_key_padding_mask=~KEEP if padded else None,
    )
    torch.testing.assert_close(output, expected, **EXACT)


@pytest.mark.parametrize("order", ORDERS)
def test_a_decoder_without_a_memory_is_an_encoder_that_sees_no_future(order):
    mine, their = ours(ORDERS[order]), theirs(ORDERS[order])
    same_weights(mine, their)
    decoder = Decoder(mine.blocks, norm=mine.norm)
    x = torch.randn(2, 5, MODEL_DIM).double()
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    torch.testing.assert_close(decoder(x), their(x, mask=future), **EXACT)
    torch.testing.assert_close(decoder(x, mask=Causal()), decoder(x), **EXACT)
