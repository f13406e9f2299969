"""The comparison in real trained models: all-MiniLM-L6-v2, and small random ones of other families."""

import json

import pytest
import torch

from headwise.experiments import compare_in_model
from headwise.experiments.positions_off import positions_off
from headwise.models import TextModel

A, B = "the charge exceeded the refund", "the refund exceeded the charge"


@pytest.fixture(scope="module")
def compared(minilm):
    return compare_in_model(minilm, A, B)


def test_distances_equal_those_of_sentence_vectors_computed_by_hand(minilm, compared):
    def vector(text):
        encoded = minilm.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            return minilm.network(**encoded).last_hidden_state[0].mean(0).double()

    def distance(x, y):
        return float(1 - torch.nn.functional.cosine_similarity(vector(x), vector(y), dim=0))

    assert compared.with_positions.reordered == pytest.approx(distance(A, B), abs=1e-6)
    assert compared.harmless.text == A + "."
    assert compared.harmless.distance == pytest.approx(distance(A, A + "."), abs=1e-6)
    assert compared.unrelated.distance == pytest.approx(distance(A, compared.unrelated.text), abs=1e-6)


def test_known_answers_of_the_trained_model(compared):
    assert compared.layers == 6
    assert compared.heads == 12
    assert compared.with_positions.reordered == pytest.approx(0.0083, abs=5e-4)
    assert compared.harmless.distance == pytest.approx(0.0319, abs=5e-4)
    assert compared.unrelated.distance > 0.9
    assert "A full stop moved the sentence 3.8 times as far" in str(compared)


def test_words_moved_by_layer_equal_a_computation_by_hand(minilm, compared):
    with torch.no_grad():
        a, b = (
            minilm.network(
                **minilm.tokenizer(text, return_tensors="pt"), output_hidden_states=True
            ).hidden_states
            for text in (A, B)
        )
    # [CLS] the charge exceeded the ref ##und [SEP] and [CLS] the ref ##und exceeded the charge [SEP]
    for state in (0, 3, 6):
        before, after = a[state][0, 5:7].mean(0), b[state][0, 2:4].mean(0)
        moved = (before - after).norm() / ((before.norm() + after.norm()) / 2)
        refund = next(word for word in compared.with_positions.words if word.word == "refund")
        assert refund.by_state[state] == pytest.approx(float(moved), rel=1e-4)


def test_head_changes_are_shares_and_sorted(compared):
    changes = [head.change for head in compared.with_positions.heads]
    assert len(changes) == 72
    assert changes == sorted(changes, reverse=True)
    assert all(0 <= change <= 1 for change in changes)
    assert changes[0] > 0.2


def test_without_its_table_the_model_is_order_blind_to_rounding(compared):
    assert compared.switched_off == ["embeddings.position_embeddings"]
    off = compared.positions_off
    assert off.largest_movement() < 1e-5
    assert off.heads[0].change < 1e-5
    assert off.reordered < 1e-9
    assert "order-blind" in str(compared)


def test_the_model_is_unchanged_afterwards(minilm, compared):
    again = compare_in_model(minilm, A, B)
    assert again == compared


def test_sentences_of_other_words_are_told_apart_without_positions_and_said_so(minilm):
    result = compare_in_model(minilm, "cat bites dog", "dog bites man")
    assert not result.same_words
    assert not result.positions_off.is_rounding()
    assert "do not hold the same words" in str(result)


def test_brackets_and_markup_in_a_sentence_are_shown_as_they_are(minilm):
    result = compare_in_model(minilm, "[bold]cat[/bold] bites dog", "dog bites [bold]cat[/bold]")
    assert "[bold]cat[/bold] bites dog" in str(result)
    json.loads(result.to_json())


def random_model(minilm, kind, **sizes):
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(
        kind, vocab_size=minilm.tokenizer.vocab_size, attn_implementation="eager", **sizes
    )
    torch.manual_seed(0)
    return TextModel(kind, AutoModel.from_config(config).eval(), minilm.tokenizer)


SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


class _WithoutTokenTypes:
    """The tokenizer's face for models that know no token types."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, text, **options):
        return self.tokenizer(text, return_token_type_ids=False, **options)

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)


def test_a_causal_model_still_knows_the_order_without_its_rotation(minilm):
    llama = random_model(minilm, "llama", **SMALL, num_key_value_heads=2)
    llama = TextModel("llama", llama.network, _WithoutTokenTypes(minilm.tokenizer))
    result = compare_in_model(llama, "cat bites dog", "dog bites cat")
    assert result.causal
    assert result.switched_off == ["rotary_emb"]
    assert not result.positions_off.is_rounding()
    assert "causal mask alone" in str(result)


def test_relative_bias_tables_are_switched_off_too(minilm):
    mpnet = random_model(minilm, "mpnet", **SMALL)
    mpnet = TextModel("mpnet", mpnet.network, _WithoutTokenTypes(minilm.tokenizer))
    result = compare_in_model(mpnet, "cat bites dog", "dog bites cat")
    assert sorted(result.switched_off) == [
        "embeddings.position_embeddings",
        "encoder.relative_attention_bias",
    ]
    assert result.positions_off.is_rounding()


def test_a_model_without_anything_to_switch_off_says_so(minilm):
    bloom = random_model(minilm, "bloom", hidden_size=32, n_layer=2, n_head=4)
    bloom = TextModel("bloom", bloom.network, _WithoutTokenTypes(minilm.tokenizer))
    result = compare_in_model(bloom, "cat bites dog", "dog bites cat")
    assert result.positions_off is None
    assert "could not be switched off" in str(result)


def test_positions_come_back_when_the_block_raises(minilm):
    table = minilm.network.embeddings.position_embeddings
    with pytest.raises(KeyError), positions_off(minilm.network):
        raise KeyError
    assert table(torch.tensor([3])).abs().sum() > 0
