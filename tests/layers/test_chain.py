"""Several encodings at once: what each does alone, together, and claims that all of them can keep."""

import pytest
import torch

from headwise.core import Causal
from headwise.layers import (
    ALiBi,
    Chain,
    Learned,
    MultiHeadAttention,
    NoPosition,
    Rotary,
    Sinusoidal,
    SwinTable,
    T5Bias,
)

AT = torch.arange(6)
q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8)


def test_it_embeds_and_turns_in_order_and_adds_what_each_adds():
    sinusoidal, rotary, alibi, t5 = Sinusoidal(), Rotary(), ALiBi(4), T5Bias(4)
    chain = Chain(sinusoidal, rotary, alibi, t5)
    x = torch.randn(2, 6, 32)
    assert torch.equal(chain.embed(x, AT), sinusoidal.embed(x, AT))
    for ours, theirs in zip(chain.rotate(q, k, AT, AT), rotary.rotate(q, k, AT, AT), strict=True):
        assert torch.equal(ours, theirs)
    added = alibi.bias(q, k, AT, AT, None) + t5.bias(q, k, AT, AT, None)
    assert torch.equal(chain.bias(q, k, AT, AT, None), added)
    twice = Chain(rotary, Rotary(base=100.0)).rotate(q, k, AT, AT)[0]
    assert torch.equal(twice, Rotary(base=100.0).turn(rotary.turn(q, AT), AT))


def test_a_chain_of_one_in_a_layer_is_that_one():
    for encoding in (Sinusoidal(), Rotary(), ALiBi(4), NoPosition()):
        layer = MultiHeadAttention(32, 4, position=encoding, mask=Causal())
        x = torch.randn(1, 6, 32)
        alone = layer(x)
        layer.position = Chain(encoding)
        assert torch.equal(layer(x), alone)


@pytest.mark.parametrize(
    ("encodings", "acts_on", "relative", "any_length"),
    [
        ((Rotary(), ALiBi(4)), ("queries and keys", "scores"), True, True),
        ((ALiBi(4), Sinusoidal()), ("embeddings", "scores"), False, True),
        ((Learned(9, 8), Rotary()), ("embeddings", "queries and keys"), False, False),
        ((NoPosition(),), (), True, True),
        ((SwinTable(4, (3, 3)), SwinTable(4, (5, 5))), ("scores",), True, False),
    ],
)
def test_it_claims_what_all_of_them_claim(encodings, acts_on, relative, any_length):
    chain = Chain(*encodings)
    assert (chain.acts_on, chain.relative, chain.any_length) == (acts_on, relative, any_length)
    assert chain.cacheable
    assert all(encoding.source in chain.source for encoding in encodings)
    assert chain.axes == encodings[0].axes


def test_it_is_not_cacheable_if_one_is_not():
    rotary = Rotary()
    rotary.cacheable = False
    assert not Chain(Sinusoidal(), rotary).cacheable


def test_parameters_are_those_of_all():
    chain = Chain(T5Bias(4), Learned(9, 8))
    assert set(chain.state_dict()) == {"encodings.0.table", "encodings.1.table"}
    chain.bias(q, k, AT, AT, None).sum().backward()
    assert next(iter(chain)).table.grad.any()


def test_a_chain_that_adds_nothing_to_scores_says_so():
    with pytest.raises(NotImplementedError, match="Chain does not act on the scores"):
        Chain(Rotary()).bias(q, k, AT, AT, None)
