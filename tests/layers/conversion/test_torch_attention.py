"""nn.MultiheadAttention to ours and back: equal outputs, and a message where no equal layer exists."""

import pytest
import torch
from torch import nn

from headwise.core import Causal, HeadwiseError, Padding
from headwise.layers import ALiBi, GatePerHead, MultiHeadAttention, NormBeforeRotation, Sinks
from headwise.layers.conversion import attention_from_torch, attention_to_torch

# float64 rounds by 2^-53; 16 products of size 1 summed in another order, four times over: below 1e-13
CLOSE = {"atol": 1e-13, "rtol": 0}

KINDS = {
    "plain": {},
    "no bias": {"bias": False},
    "batch second": {"batch_first": False},
    "another memory": {"kdim": 6, "vdim": 6},
    "a key of zeros": {"add_zero_attn": True},
}


def theirs(batch_first=True, **options):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=batch_first, dtype=torch.float64, **options).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return layer


def inputs(layer):
    x, memory = torch.randn(2, 5, 16).double(), torch.randn(2, 7, layer.kdim).double()
    hidden = torch.zeros(2, 7, dtype=torch.bool)
    hidden[1, 4:] = True
    return x, memory, hidden


def called(layer, x, memory, hidden=None, **options):
    """PyTorch's layer, batch first whatever it wants."""
    turned = (t if layer.batch_first else t.transpose(0, 1) for t in (x, memory, memory))
    out = layer(*turned, key_padding_mask=hidden, need_weights=False, **options)[0]
    return out if layer.batch_first else out.transpose(0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_theirs_to_ours(kind):
    layer = theirs(**KINDS[kind])
    ours = attention_from_torch(layer)
    x, memory, hidden = inputs(layer)
    torch.testing.assert_close(
        ours(x, memory, mask=Padding(~hidden)), called(layer, x, memory, hidden), **CLOSE
    )


@pytest.mark.parametrize("kind", KINDS)
def test_and_back_to_the_last_bit(kind):
    layer = theirs(**KINDS[kind])
    back = attention_to_torch(attention_from_torch(layer), batch_first=layer.batch_first)
    x, memory, hidden = inputs(layer)
    assert back.state_dict().keys() == layer.state_dict().keys()
    assert all(torch.equal(back.state_dict()[name], weight) for name, weight in layer.state_dict().items())
    assert torch.equal(called(back, x, memory, hidden), called(layer, x, memory, hidden))


def test_ours_to_theirs_with_a_mask():
    torch.manual_seed(0)
    ours = MultiHeadAttention(16, heads=4).double()
    x = torch.randn(2, 5, 16).double()
    hidden = torch.ones(5, 5).triu(1).bool()
    given = attention_to_torch(ours)(x, x, x, attn_mask=hidden)[0]
    torch.testing.assert_close(given, ours(x, mask=Causal()), **CLOSE)


def test_dropout_and_the_mode_come_along():
    layer = theirs(dropout=0.25).train()
    ours = attention_from_torch(layer)
    assert ours.training
    assert ours.dropout == 0.25
    assert attention_to_torch(ours.eval()).dropout == 0.25
    assert not attention_to_torch(ours).training


def test_weights_are_copies_and_train():
    layer = theirs()
    ours = attention_from_torch(layer)
    with torch.no_grad():
        layer.in_proj_weight.zero_()
    assert ours.query.weight.abs().sum() > 0
    assert all(parameter.requires_grad for parameter in ours.parameters())
    back = attention_to_torch(ours)
    with torch.no_grad():
        ours.query.weight.zero_()
    assert back.in_proj_weight[:16].abs().sum() > 0
    assert all(parameter.requires_grad for parameter in back.parameters())


def test_nothing_random_is_drawn():
    layer = theirs()
    state = torch.get_rng_state()
    attention_to_torch(attention_from_torch(layer))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kdim": 6, "vdim": 5}, "kdim and vdim must be equal, got 6 and 5"),
        ({"add_bias_kv": True}, "add_bias_kv must be False, got True"),
    ],
)
def test_theirs_refused(options, words):
    with pytest.raises(HeadwiseError, match=words):
        attention_from_torch(nn.MultiheadAttention(16, 4, **options))


BEYOND = {
    "position": {"position": ALiBi(4)},
    "mask": {"mask": Causal()},
    "kv_heads": {"kv_heads": 2},
    "head_dim": {"head_dim": 8},
    "value_dim": {"value_dim": 2},
    "scale": {"scale": 1.0},
    "softcap": {"softcap": 20.0},
    "head_norm": {"head_norm": NormBeforeRotation(nn.RMSNorm(4), nn.RMSNorm(4))},
    "gate": {"gate": GatePerHead(16, 4)},
    "sinks": {"sinks": Sinks(4)},
    "output_bias": {"output_bias": False},
}


@pytest.mark.parametrize("option", BEYOND)
def test_ours_refused(option):
    with pytest.raises(HeadwiseError, match=f"attention_to_torch: {option} must be what"):
        attention_to_torch(MultiHeadAttention(16, heads=4, **BEYOND[option]))


def test_every_option_of_ours_is_in_the_table():
    """An option that comes later is either here or carried over."""
    import inspect

    carried = {"self", "model_dim", "heads", "memory_dim", "bias", "dropout"}
    options = set(inspect.signature(MultiHeadAttention.__init__).parameters)
    assert options - carried == BEYOND.keys()
