"""PyTorch's encoder and decoder layers and stacks to ours and back: equal outputs, training included."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.core import Causal, HeadwiseError, Padding
from headwise.layers import (
    MLP,
    Decoder,
    Encoder,
    GatedMLP,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    make_blocks,
)
from headwise.layers.conversion import (
    block_from_torch,
    block_to_torch,
    decoder_from_torch,
    decoder_to_torch,
    encoder_from_torch,
    encoder_to_torch,
)

# float64 in another order, 1e-15 a part; norms that divide by 0.1 or more let it grow tenfold, four times
CLOSE = {"atol": 1e-11, "rtol": 0}
HIDDEN = torch.ones(5, 5).triu(1).bool()
ATTENTION = partial(MultiHeadAttention, heads=4)

KINDS = {
    "post-norm, relu": {},
    "pre-norm": {"norm_first": True},
    "gelu": {"activation": functional.gelu},
    "gelu by tanh": {"activation": nn.GELU(approximate="tanh"), "norm_first": True},
    "no bias": {"bias": False},
    "another eps": {"layer_norm_eps": 0.1},
    "batch second": {"batch_first": False},
}


def randomised(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return module


def theirs(kind, make, depth=2, *, norm=True, mode="eval"):
    torch.manual_seed(0)
    options = {"batch_first": True, "dtype": torch.float64, "dropout": 0.0, **KINDS[kind]}
    layer_class, stack_class = {
        "encoder": (nn.TransformerEncoderLayer, partial(nn.TransformerEncoder, enable_nested_tensor=False)),
        "decoder": (nn.TransformerDecoderLayer, nn.TransformerDecoder),
    }[make]
    last = nn.LayerNorm(16, dtype=torch.float64) if norm else None
    stack = randomised(stack_class(layer_class(16, 4, 24, **options), depth, norm=last))
    return stack.train(mode == "train")


def given():
    generator = torch.Generator().manual_seed(1)
    x, memory = (torch.randn(2, n, 16, generator=generator, dtype=torch.float64) for n in (5, 7))
    keep = torch.ones(2, 7, dtype=torch.bool)
    keep[1, 4:] = False
    return x, memory, keep


def of_encoder(stack, x, keep):
    if stack.layers[0].self_attn.batch_first:
        return stack(x, src_key_padding_mask=~keep)
    return stack(x.transpose(0, 1), src_key_padding_mask=~keep).transpose(0, 1)


def of_decoder(stack, x, memory, keep):
    options = {"tgt_mask": HIDDEN, "memory_key_padding_mask": ~keep}
    if stack.layers[0].self_attn.batch_first:
        return stack(x, memory, **options)
    return stack(x.transpose(0, 1), memory.transpose(0, 1), **options).transpose(0, 1)


@pytest.mark.parametrize("mode", ["train", "eval"])  # PyTorch has a path of its own for each
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_and_back(kind, mode):
    if kind == "gelu by tanh" and mode == "eval":
        mode = "train"  # PyTorch's path for evaluation takes the exact GELU: see the test below
    stack = theirs(kind, "encoder", mode=mode)
    ours = encoder_from_torch(stack)
    _, x, keep = given()
    with torch.set_grad_enabled(stack.training):  # the fast path is taken without gradients alone
        out = of_encoder(stack, x, keep)
    assert ours.training == stack.training
    torch.testing.assert_close(ours(x, mask=Padding(keep))[keep], out[keep], **CLOSE)
    back = encoder_to_torch(ours, batch_first=stack.layers[0].self_attn.batch_first)
    assert all(torch.equal(back.state_dict()[name], weight) for name, weight in stack.state_dict().items())
    torch.testing.assert_close(of_encoder(back, x, keep)[keep], out[keep], **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_and_back(kind):
    stack = theirs(kind, "decoder")
    ours = decoder_from_torch(stack)
    x, memory, keep = given()
    out = of_decoder(stack, x, memory, keep)
    torch.testing.assert_close(ours(x, memory, memory_mask=Padding(keep)), out, **CLOSE)
    back = decoder_to_torch(ours, batch_first=stack.layers[0].self_attn.batch_first)
    assert torch.equal(of_decoder(back, x, memory, keep), out)


def test_a_stack_without_a_last_norm():
    stack = theirs("post-norm, relu", "encoder", norm=False)
    ours = encoder_from_torch(stack)
    assert ours.norm is None
    assert encoder_to_torch(ours).norm is None


@pytest.mark.parametrize("training", [True, False])
def test_a_gelu_by_tanh_stays_one_in_evaluation(training):
    """PyTorch's layer, once it knows an nn.GELU, computes the exact one in evaluation: 5e-4 beside."""
    torch.manual_seed(0)
    mlp = partial(MLP, activation=nn.GELU(approximate="tanh"))
    ours = randomised(make_blocks(1, 16, attention=ATTENTION, mlp=mlp)[0].double()).train(training)
    x, _, _ = given()
    with torch.no_grad():
        torch.testing.assert_close(block_to_torch(ours)(x), ours(x), **CLOSE)


def test_gradients_are_theirs():
    stack = theirs("pre-norm", "encoder", mode="train")
    ours = encoder_from_torch(stack)
    _, x, keep = given()
    of_encoder(stack, x, keep)[keep].square().sum().backward()
    ours(x, mask=Padding(keep))[keep].square().sum().backward()
    q, k, v = stack.layers[0].self_attn.in_proj_weight.grad.chunk(3)
    layer = ours.blocks[0].attention.layer
    for mine, their in ((layer.query, q), (layer.key, k), (layer.value, v)):
        torch.testing.assert_close(mine.weight.grad, their, atol=0, rtol=1e-9)


@pytest.mark.parametrize("make", ["encoder", "decoder"])
def test_every_rate_of_dropout_comes_along(make):
    stack = theirs("pre-norm", make, depth=1)
    layer = stack.layers[0]
    rates = {"self_attn": 0.1, "dropout": 0.2, "dropout1": 0.3, "dropout2": 0.4, "dropout3": 0.5}
    for name, rate in rates.items():
        if name == "self_attn":
            layer.self_attn.dropout = rate
        elif hasattr(layer, name):
            getattr(layer, name).p = rate
    block = block_from_torch(layer)
    back = block_to_torch(block)
    assert (block.attention.layer.dropout, block.mlp.layer.dropout.p) == (0.1, 0.2)
    assert back.self_attn.dropout == 0.1
    for name, rate in rates.items():
        if name != "self_attn" and hasattr(layer, name):
            assert getattr(back, name).p == rate


def test_our_own_decoder_without_a_memory_is_an_encoder_with_a_mask():
    torch.manual_seed(0)
    ours = randomised(Decoder(make_blocks(2, 16, attention=ATTENTION), norm=nn.LayerNorm(16)).double())
    x, _, _ = given()
    back = encoder_to_torch(Encoder(ours.blocks, norm=ours.norm))
    torch.testing.assert_close(back(x, mask=HIDDEN), ours(x), **CLOSE)
    torch.testing.assert_close(Encoder(ours.blocks, norm=ours.norm)(x, mask=Causal()), ours(x), **CLOSE)


def mixed_norms():
    block = make_blocks(1, 16, attention=ATTENTION)[0]
    block.mlp = PostNorm(block.mlp.layer, block.mlp.norm)
    return block


BEYOND = {
    "norms must be all before or all after": mixed_norms,
    "mlp must be MLP, got GatedMLP": lambda: make_blocks(1, 16, attention=ATTENTION, mlp=GatedMLP)[0],
    "norm must be nn.LayerNorm, got RMSNorm": lambda: make_blocks(
        1, 16, attention=ATTENTION, norm=nn.RMSNorm
    )[0],
    "biases must be in all parts or in none": lambda: make_blocks(
        1, 16, attention=partial(ATTENTION, bias=False)
    )[0],
    "attention must be MultiHeadAttention, got Identity": lambda: make_blocks(
        1, 16, attention=lambda width: nn.Identity()
    )[0],
    "kv_heads must be what nn.MultiheadAttention can do": lambda: make_blocks(
        1, 16, attention=partial(ATTENTION, kv_heads=2)
    )[0],
}


@pytest.mark.parametrize("words", BEYOND)
def test_ours_refused(words):
    with pytest.raises(HeadwiseError, match=words):
        block_to_torch(BEYOND[words]())


def test_a_decoder_that_reads_nothing_is_refused():
    with pytest.raises(HeadwiseError, match="blocks must be with cross-attention"):
        decoder_to_torch(Decoder(make_blocks(1, 16, attention=ATTENTION)))


class Changed(nn.TransformerEncoderLayer):
    pass


def test_classes_of_others_are_refused():
    encoder = theirs("pre-norm", "encoder")
    for convert, given_ in (
        (block_from_torch, Changed(16, 4, 24)),
        (encoder_from_torch, nn.Identity()),
        (decoder_from_torch, encoder),
    ):
        with pytest.raises(HeadwiseError, match="A subclass may be another formula"):
            convert(given_)


def test_the_two_orders_of_norms_are_ours():
    for kind, around in (("pre-norm", PreNorm), ("post-norm, relu", PostNorm)):
        block = block_from_torch(theirs(kind, "encoder").layers[0])
        assert type(block.attention) is type(block.mlp) is around
