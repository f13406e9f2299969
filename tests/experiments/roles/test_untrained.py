"""An untrained copy has the same shape and nothing of the training, and the trained one stays as it was."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headwise.core import HeadwiseError
from headwise.experiments.roles.untrained import untrained_copy
from headwise.layers import MultiHeadAttention
from headwise.models import TextModel, open_text_model
from tests.experiments.inside.models import causal_model


def states(model):
    return {name: weight.clone() for name, weight in model.network.state_dict().items()}


@pytest.fixture(scope="module")
def trained():
    return open_text_model()


def test_same_names_shapes_and_kernel_and_the_original_untouched(trained):
    before = states(trained)
    untrained = untrained_copy(trained, seed=0)
    after = states(trained)
    assert all(torch.equal(before[name], after[name]) for name in before)
    found = states(untrained)
    assert {name: weight.shape for name, weight in found.items()} == {n: w.shape for n, w in before.items()}
    assert untrained.network.config._attn_implementation == trained.network.config._attn_implementation
    assert not untrained.network.training
    assert (untrained.name, untrained.tokenizer) == (trained.name, trained.tokenizer)
    shared = {id(weight) for weight in trained.network.parameters()}
    assert not shared & {id(weight) for weight in untrained.network.parameters()}


def test_matrices_are_drawn_as_the_family_draws_them(trained):
    """BERT draws matrices from N(0, 0.02) and starts biases at 0; trained ones do not look so.

    The deviation of n draws is off by 0.02 / sqrt(2 n) on average: of 384 * 384 by less than 0.0002 in five
    standard errors.
    """
    layer = untrained_copy(trained, seed=0).network.encoder.layer[3].attention.self
    bound = 5 * 0.02 / (2 * 384 * 384) ** 0.5
    assert abs(float(layer.query.weight.detach().std()) - 0.02) < bound
    assert not layer.query.bias.any()
    learned = trained.network.encoder.layer[3].attention.self
    assert abs(float(learned.query.weight.detach().std()) - 0.02) > bound


def test_the_seed_decides_and_the_global_seed_does_not(trained):
    torch.manual_seed(5)
    one = states(untrained_copy(trained, seed=1))
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    again, other = states(untrained_copy(trained, seed=1)), states(untrained_copy(trained, seed=2))
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(one[name], again[name])
    assert not torch.equal(one[name], other[name])


def test_tied_weights_stay_tied_and_the_dtype_stays(trained):
    model = causal_model(trained, tie_word_embeddings=True)
    model.network.to(torch.bfloat16)
    network = untrained_copy(model, seed=1).network
    assert network.lm_head.weight is network.model.embed_tokens.weight
    assert network.lm_head.weight.dtype == torch.bfloat16
    assert not torch.equal(network.lm_head.weight, model.network.lm_head.weight)


class Own(nn.Module):
    """A network that is not of transformers, with attention of PyTorch's and of ours."""

    def __init__(self, scale=False):
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.torch_heads = nn.MultiheadAttention(8, 2, batch_first=True)
        self.own_heads = MultiHeadAttention(8, 2)
        self.norm = nn.LayerNorm(8)
        if scale:
            self.scale = nn.Parameter(torch.ones(3))


def own(**options):
    network = Own(**options)
    with torch.no_grad():
        for weight in network.parameters():
            weight.fill_(7.0)
    return TextModel("own", network, SimpleNamespace())


def test_a_network_of_ones_own_is_reset_by_its_modules():
    model = own()
    found = states(untrained_copy(model, seed=0))
    assert all((weight != 7.0).all() for weight in found.values())
    assert all(weight.isfinite().all() for weight in found.values())
    assert (found["norm.weight"] == 1).all()
    assert not found["torch_heads.in_proj_bias"].any()
    assert not found[
        "torch_heads.out_proj.bias"
    ].any()  # as the attention starts it, not as a linear layer does
    assert all((weight == 7.0).all() for weight in states(model).values())


def test_weights_that_nothing_draws_are_named():
    with pytest.raises(HeadwiseError, match=r"got 1 weights that none of them draws, the first scale"):
        untrained_copy(own(scale=True), seed=0)
