"""What the layer promises beside the formula: weights, dropout, sizes, gradients, combined masks."""

import pytest
import torch
from torch.autograd import gradcheck

from headwise.core import Causal, Padding, SlidingWindow
from headwise.layers import MultiHeadAttention
from tests.core.paths import force_small_blocks
from tests.layers.encodings import ENCODINGS, layer_with, words

every_encoding = pytest.mark.parametrize("name", ENCODINGS)
LEFT = Padding(torch.tensor([[False, True, True, True], [True] * 4]))


@every_encoding
@pytest.mark.parametrize("mask", [None, Causal(), LEFT, Causal() & LEFT])
@pytest.mark.parametrize("training", [False, True])
def test_asking_for_weights_leaves_the_output_alone_to_the_last_bit(name, mask, training):
    layer = layer_with(name, 8, 4, kv_heads=2, dropout=0.5).float().train(training)
    x = torch.randn(2, 4, 8)
    torch.manual_seed(5)
    plain = layer(x, mask=mask)
    torch.manual_seed(5)
    attended = layer.with_weights(x, mask=mask)
    assert torch.equal(attended.output, plain)
    assert attended.weights.shape == (2, 4, 4, 4)


@every_encoding
@pytest.mark.parametrize("mask", [None, Causal(), LEFT, Causal() & LEFT])
def test_the_weights_rebuild_the_output(name, mask):
    layer = layer_with(name, 8, 4, kv_heads=2)
    x = words(2, 4, 8)
    output, weights = layer.with_weights(x, mask=mask)
    embedded = layer.position.embed(x, torch.arange(4))
    values = layer.value(embedded).unflatten(-1, (2, 2)).transpose(1, 2).repeat_interleave(2, dim=1)
    heads = weights.dense() @ values
    if "values" in layer.position.acts_on:
        heads = heads + layer.position.value_bias(weights.dense(), torch.arange(4), torch.arange(4))
    rebuilt = layer.output(heads.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(rebuilt, output, rtol=0.0, atol=1e-12)


def test_weights_are_those_before_dropout():
    layer = MultiHeadAttention(8, 2, dropout=0.5).train()
    weights = layer.with_weights(torch.randn(2, 4, 8)).weights
    torch.testing.assert_close(weights.dense().sum(-1), torch.ones(2, 2, 4))


@every_encoding
def test_dropout_in_training_only(name):
    layer = layer_with(name, dropout=0.5)
    without = layer_with(name)
    without.load_state_dict(layer.state_dict())
    x = words(2, 6, 8)
    assert torch.equal(layer(x), layer(x))
    torch.testing.assert_close(layer(x), without(x), rtol=0.0, atol=1e-12)
    layer.train()
    assert not torch.equal(layer(x), layer(x))


@every_encoding
@pytest.mark.parametrize("mask", [None, Causal() & LEFT])
def test_gradients_against_finite_differences(name, mask):
    layer = layer_with(name, 4, 2, kv_heads=1)
    x = words(2, 4, 4).requires_grad_()
    leaves = [x, *(p for p in layer.parameters() if p.numel() < 100)]
    assert gradcheck(lambda x, *_: layer(x, mask=mask), leaves, atol=1e-6)


def test_a_learned_table_gets_a_gradient_where_it_was_read():
    layer = layer_with("learned")
    layer(words(1, 3, 8), positions=torch.tensor([1, 5, 7])).sum().backward()
    assert layer.position.table.grad.any(dim=1).nonzero().flatten().tolist() == [1, 5, 7]


@pytest.mark.parametrize("memory_gradient", [True, False])
def test_gradients_of_cross_attention(memory_gradient):
    layer = layer_with("rotary, halves", 4, 2, memory_dim=3)
    x, memory = words(1, 3, 4).requires_grad_(), words(1, 2, 3).requires_grad_(memory_gradient)
    assert gradcheck(layer, [x, memory])


def test_a_memory_equal_to_the_input_is_self_attention():
    for name in ENCODINGS:
        layer = layer_with(name, mask=Causal())
        x = words(2, 5, 8)
        torch.testing.assert_close(layer(x, x), layer(x), rtol=0.0, atol=1e-12)


def test_the_masks_of_the_layer_and_of_the_call_both_hold():
    layer = layer_with("none")
    x = words(2, 4, 8)
    together = layer(x, mask=Causal() & SlidingWindow(2))
    layer.mask = Causal()
    torch.testing.assert_close(layer(x, mask=SlidingWindow(2)), together, rtol=0.0, atol=1e-12)
    torch.testing.assert_close(layer(x, mask=LEFT)[1], layer(x)[1], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_the_number_of_parameters_does_not_depend_on_the_heads(heads):
    assert sum(p.numel() for p in MultiHeadAttention(8, heads).parameters()) == 4 * (8 * 8 + 8)


def test_sizes_follow_the_arguments():
    layer = MultiHeadAttention(10, 4, kv_heads=2, head_dim=6, memory_dim=7, bias=False)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {
        "query.weight": (24, 10),
        "key.weight": (12, 7),
        "value.weight": (12, 7),
        "output.weight": (10, 24),
    }
    assert layer(torch.randn(2, 3, 10), torch.randn(2, 5, 7)).shape == (2, 3, 10)


def test_many_heads_learn_mixtures_not_slices():
    """Each head reads every dimension of the input: a change in any one reaches every head's weights."""
    layer = layer_with("none", 8, 4)
    x = words(1, 3, 8)
    before = layer.with_weights(x).weights.dense()
    for dimension in range(8):
        changed = x.clone()
        changed[..., 1, dimension] += 1.0
        assert (layer.with_weights(changed).weights.dense() != before).any(dim=(0, 2, 3)).all()


def test_a_layer_says_what_it_is():
    text = repr(MultiHeadAttention(8, 4, kv_heads=2, mask=Causal() & SlidingWindow(3)))
    assert "model_dim=8, heads=4, kv_heads=2, mask=causal & the last 3 keys" in text


@every_encoding
@pytest.mark.parametrize("mask", [None, Causal(), SlidingWindow(2), Causal() & LEFT])
def test_blocks_of_queries_keep_their_positions(monkeypatch, name, mask):
    """Cut into blocks of one query, each block has its own rows of positions, for each row of the batch."""
    layer, x = layer_with(name, mask=mask), words(2, 4, 8)
    positions = torch.tensor([[0, 1, 2, 3], [5, 1, 3, 2]])
    whole = layer(x, positions=positions)
    whole.sum().backward()
    gradient = layer.key.weight.grad.clone()
    layer.zero_grad()
    force_small_blocks(monkeypatch, rows=1)
    cut = layer(x, positions=positions)
    cut.sum().backward()
    torch.testing.assert_close(cut, whole, rtol=0.0, atol=1e-12)
    # a gradient sums some hundred products of size up to about 10, since integers adds 5 to a word
    torch.testing.assert_close(layer.key.weight.grad, gradient, rtol=0.0, atol=1e-11)
