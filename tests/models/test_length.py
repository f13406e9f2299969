"""How long a text a model takes: as long as its table, or on beyond where positions are computed."""

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.models import TextModel, open_text_model
from headwise.models.length import goes_on, trained_length

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def network(kind, **options):
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(
        kind, **{**SIZES, "vocab_size": 99, "max_position_embeddings": 12, **options}
    )
    return AutoModel.from_config(config).eval()


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "opt"])
def test_a_table_is_the_limit_and_really_is(kind):
    options = {"ffn_dim": 32, "word_embed_proj_dim": 16} if kind == "opt" else {}
    model = network(kind, **options)
    longest = trained_length(model)
    assert not goes_on(model)
    numbers = torch.full((1, longest), 50)
    with torch.no_grad():
        model(input_ids=numbers)
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, longest + 1), 50))


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2"])
def test_a_rotary_model_goes_on(kind):
    model = network(kind, num_key_value_heads=1)
    assert trained_length(model) == 12
    assert goes_on(model)
    with torch.no_grad():
        assert model(input_ids=torch.full((1, 20), 50)).last_hidden_state.isfinite().all()


def test_a_vocabulary_of_the_same_size_is_no_table_of_positions():
    assert goes_on(network("llama", num_key_value_heads=1, vocab_size=12))


def test_encode_refuses_and_goes_on():
    minilm = open_text_model()
    with pytest.raises(HeadwiseError, match="at most 512 tokens, got 602"):
        minilm.encode("word " * 600)
    llama = network("llama", num_key_value_heads=1, vocab_size=minilm.tokenizer.vocab_size)
    model = TextModel("llama", llama, minilm.tokenizer)
    assert len(model.encode("word " * 20).tokens) == 22
    assert model.longest == 12
