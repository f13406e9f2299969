"""ablate: against the same model with a head's part of the output weights set to zero by hand."""

import copy

import pytest
import torch

from headwise import look
from headwise.core import HeadwiseError
from headwise.experiments import ablate_heads
from headwise.experiments.inside.ablating import random_draws
from headwise.models import Model, TextModel
from tests.experiments.faces import check_face, check_json, check_picture
from tests.experiments.inside.conftest import TEXT
from tests.experiments.inside.models import causal_model


def without(model, projection, head, head_dim):
    """A copy of the model whose output projection does not hear the head."""
    network = copy.deepcopy(model.network)
    network.get_submodule(projection).weight.data[:, head * head_dim : (head + 1) * head_dim] = 0
    return network


@torch.no_grad()
def loss_of(network, model, text):
    """transformers' own loss of a causal language model."""
    encoded = model.encode(text)
    return float(network(**encoded.inputs, labels=encoded.inputs["input_ids"]).loss)


def test_the_loss_is_the_models_own_and_zero_is_zero(minilm):
    model = causal_model(minilm)
    result = ablate_heads(model, TEXT, ["1.3", "0.1"], draws=2)
    # float32 logits of a few units and a mean over 20 tokens
    assert result.loss == pytest.approx(loss_of(model.network, model, TEXT), abs=1e-5)
    expected = loss_of(without(model, "model.layers.1.self_attn.o_proj", 3, 8), model, TEXT)
    alone = next(effect for effect in result.alone if effect.heads == ["1.3"])
    assert alone.loss == pytest.approx(expected, abs=1e-5)
    assert alone.loss_change == pytest.approx(expected - result.loss, abs=1e-5)
    assert abs(alone.loss_change) > 1e-4
    both = TextModel("both", without(model, "model.layers.1.self_attn.o_proj", 3, 8), model.tokenizer)
    expected = loss_of(without(both, "model.layers.0.self_attn.o_proj", 1, 8), model, TEXT)
    assert result.together.loss == pytest.approx(expected, abs=1e-5)


def test_the_output_of_another_model(fused):
    result = ablate_heads(fused, TEXT, "0.2", draws=3)
    inputs = fused.encode(TEXT).inputs
    network = without(fused, "encoder.layer.0.attention.output.dense", 2, 32)
    with torch.no_grad():
        old = fused.network(**inputs).last_hidden_state[0].double()
        new = network(**inputs).last_hidden_state[0].double()
    effect = result.together
    assert result.loss is None
    assert effect.output_change == pytest.approx(float((new - old).norm() / old.norm()), rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity(new.mean(0), old.mean(0), dim=0)
    assert effect.vector_change == pytest.approx(float(1 - cosine), abs=1e-6)
    assert result.alone == [effect]
    assert result.coverage.changed == 1


@pytest.mark.parametrize(
    ("to", "replacement"), [("zero", look.Zero()), ("mean", look.Mean()), ("uniform", look.Uniform())]
)
def test_the_words_for_replacements(fused, to, replacement):
    inputs = fused.encode(TEXT).inputs
    with torch.no_grad():
        old = fused.network(**inputs).last_hidden_state.double()
        with look.ablate(fused.network, "2.4", replacement):
            new = fused.network(**inputs).last_hidden_state.double()
    result = ablate_heads(fused, TEXT, "2.4", to=to, draws=0)
    assert result.together.output_change == pytest.approx(float((new - old).norm() / old.norm()), rel=1e-6)
    assert result.random == []


def test_the_model_is_as_before(fused):
    inputs = fused.encode(TEXT).inputs
    with torch.no_grad():
        before = fused.network(**inputs).last_hidden_state
        ablate_heads(fused, TEXT, "2.4", draws=1)
        assert torch.equal(fused.network(**inputs).last_hidden_state, before)


def test_random_heads_are_others_of_the_same_layers_and_as_many():
    chosen = [look.Head(1, 0), look.Head(1, 3), look.Head(4, 2)]
    draws = random_draws(chosen, [8] * 5, draws=6, seed=3)
    assert len({tuple(draw) for draw in draws}) == len(draws) == 6
    for draw in draws:
        assert sorted(head.layer for head in draw) == [1, 1, 4]
        assert len(set(draw)) == 3
        assert not set(draw) & set(chosen)
    assert draws == random_draws(chosen, [8] * 5, draws=6, seed=3)
    assert draws != random_draws(chosen, [8] * 5, draws=6, seed=4)


def test_there_are_no_random_heads_where_none_are_left(minilm):
    result = ablate_heads(causal_model(minilm), TEXT, ["0.0", "0.1", "0.2"])
    assert result.random == []
    check_face(result, "There is no baseline")


def test_heads_by_name_and_twice_are_the_same_head(fused):
    name = "encoder.layer.0.attention.self"
    result = ablate_heads(fused, TEXT, ["0.2", f"{name}:2"], draws=0)
    assert result.together.heads == ["0.2"]


def test_the_page_json_and_picture(minilm, fused, tmp_path):
    result = ablate_heads(causal_model(minilm), TEXT, ["1.3", "0.1"], draws=2)
    check_face(
        result,
        "tiny without 2 heads",
        "nats per token",
        "1.3, 0.1 together",
        "  1.3 alone",
        "random 2: ",
        "2 draws",
        "outputs changed in 2 of",
    )
    check_json(result)
    check_picture(result, tmp_path)
    other = ablate_heads(fused, TEXT, [(layer, 0) for layer in range(6)], draws=1)
    check_face(other, "text vector", "and 1 more", "1 draw,")
    (tmp_path / "other").mkdir()
    check_picture(other, tmp_path / "other")


def test_many_heads_are_cut_in_the_table_only(fused):
    heads = [(layer, head) for layer in range(3) for head in range(8)]
    result = ablate_heads(fused, "The cat sat.", heads, draws=0)
    check_face(result, "and 4 more with less")
    assert len(result.alone) == 24


class _Plain(torch.nn.Module):
    """A hand-written model that returns its output in a tuple."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(9, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, numbers):
        x = self.words(numbers)
        return numbers, self.attention(x, x, x)[0]


def test_a_plain_model_takes_token_numbers():
    result = ablate_heads(Model("plain", _Plain()), "1,5,2", "0.1", draws=1)
    assert result.random[0].heads == ["0.0"]
    assert result.together.output_change > 0


@pytest.mark.parametrize(
    ("heads", "options", "words"),
    [
        (["9.0"], {}, "one that made an attention call"),
        (["0.12"], {}, "from 0 to 11, got 12"),
        (["first"], {}, "a layer and a number from 0"),
        ([], {}, "heads must be at least one, got none"),
        (["0.0"], {"to": "nothing"}, "to must be one of zero, mean, uniform, got 'nothing'"),
        (["0.0"], {"draws": -1}, "draws must be a whole number of at least 1, got -1"),
        (["0.0"], {"seed": -1}, "seed must be from 0 to 2^63 - 1, got -1"),
    ],
)
def test_bad_input(fused, heads, options, words):
    with pytest.raises(HeadwiseError) as caught:
        ablate_heads(fused, TEXT, heads, **options)
    assert words in str(caught.value)
