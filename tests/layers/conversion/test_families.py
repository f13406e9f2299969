"""Whole models of transformers, tiny and random, to ours: the same outputs, and the same text."""

import pytest
import torch

from headwise.core import Padding
from headwise.layers import KVCache, LanguageModel, TokenModel, Transformer, generate
from headwise.layers.conversion import from_hugging_face
from tests.layers.conversion.random_models import (
    ALL,
    DECODERS,
    ENCODERS,
    TRANSLATORS,
    both,
    keep,
    theirs,
    tokens,
)

# theirs work in float64 where it was asked for, but rotary angles and RMSNorm in float32: 2^-24 of numbers
# of size 4, through two layers whose norms let it grow
CLOSE = {
    family: {"atol": 1e-13, "rtol": 0} for family in ("bert", "mpnet", "gpt2", "gpt2, scores not scaled")
}
IN_FLOAT32 = {"atol": 2e-5, "rtol": 0}


def close(mine, theirs, family):
    torch.testing.assert_close(mine, theirs, **CLOSE.get(family, IN_FLOAT32))


@pytest.mark.parametrize("family", ENCODERS)
@torch.no_grad()
def test_an_encoder_with_a_padded_row(family):
    network, ours = both(family)
    real = keep(right=3)
    x = tokens().masked_fill(~real, network.config.pad_token_id)
    segments = {"segments": (torch.arange(21) > 8).long().expand(2, -1)} if family == "bert" else {}
    named = {"token_type_ids": segments["segments"]} if segments else {}
    out = network(x, attention_mask=real.long(), **named).last_hidden_state
    assert type(ours) is TokenModel
    close(ours(x, keep=real, **segments)[real], out[real], family)


@pytest.mark.parametrize("family", DECODERS)
@torch.no_grad()
def test_a_decoder_with_a_row_padded_on_the_left(family):
    network, ours = both(family)
    real = keep(left=3)
    positions = (real.long().cumsum(1) - 1).clamp(min=0)
    out = network(tokens(), attention_mask=real.long(), position_ids=positions).logits
    assert type(ours) is LanguageModel
    close(ours(tokens(), keep=real)[real], out[real], family)


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_writes_the_same(family):
    network, ours = both(family)
    x, real = tokens(length=5), keep(length=5, left=2)
    given = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    text = network.generate(x, attention_mask=real.long(), **given)
    assert torch.equal(generate(ours, x, 20, keep=real, make_cache=KVCache), text)
    assert len(text[:, 5:].unique()) > 3  # a text that says one word would prove little


@pytest.mark.parametrize("family", TRANSLATORS)
@torch.no_grad()
def test_a_translator(family):
    network, ours = both(family)
    source, target, real = tokens(), tokens(length=17), keep(right=3)
    out = network(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
    assert type(ours) is Transformer
    close(ours(source, target, keep=real), out, family)
    text = network.generate(
        source,
        attention_mask=real.long(),
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=None,
        use_cache=False,
    )
    memory = ours.encoder(source, keep=real)
    start = torch.zeros(2, 1, dtype=torch.long)
    assert torch.equal(generate(ours.decoder, start, 12, memory=memory, memory_mask=Padding(real)), text)


@pytest.mark.parametrize("family", ALL)
def test_the_dictionary_of_a_configuration_says_the_same(family):
    network, ours = both(family)
    config = network.config.to_dict()
    other = from_hugging_face(network.state_dict(), config)
    assert other.state_dict().keys() == ours.state_dict().keys()
    assert str(other) == str(ours)


@pytest.mark.parametrize("family", ALL)
def test_every_number_of_the_file_is_in_the_model_and_is_a_copy(family):
    network = theirs(family)
    given = network.state_dict()
    before = torch.get_rng_state()
    ours = from_hugging_face(given, network.config)
    assert torch.equal(torch.get_rng_state(), before)  # nothing is drawn
    assert not any(part.training for part in ours.modules())
    assert all(parameter.requires_grad and parameter.is_contiguous() for parameter in ours.parameters())
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float64}
    theirs_sum = sum(
        parameter.sum().item() for name, parameter in network.named_parameters() if "pooler" not in name
    )
    if family == "mpnet":  # the rows of tokens before the first position
        theirs_sum -= network.embeddings.position_embeddings.weight[:2].sum().item()
    before = sum(parameter.sum().item() for parameter in ours.parameters())
    assert abs(before - theirs_sum) < 1e-9
    with torch.no_grad():
        for weight in given.values():
            weight.zero_()
    assert sum(parameter.sum().item() for parameter in ours.parameters()) == before


@torch.no_grad()
def test_windows_before_layers_had_names():
    network = theirs("qwen2, windows")
    config = network.config.to_dict()
    assert config.pop("layer_types") == ["full_attention", "sliding_attention"]
    ours = from_hugging_face(network.state_dict(), config)
    close(ours(tokens()), network(tokens()).logits, "qwen2")


def test_dropout_comes_along_and_sleeps():
    rates = {"hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.5}
    _, ours = both("bert", **rates)
    block = ours.stack.blocks[0]
    assert (block.attention.dropout.p, block.mlp.dropout.p, ours.embedding.dropout.p) == (0.25, 0.25, 0.25)
    assert block.attention.layer.dropout == 0.5


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@torch.no_grad()
def test_a_body_without_an_output_makes_a_token_model(family):
    network = theirs(family)
    ours = from_hugging_face(network.model.state_dict(), network.config)
    assert type(ours) is TokenModel
    close(ours(tokens()), network.model(tokens()).last_hidden_state, family)


@torch.no_grad()
def test_the_encoder_of_t5_alone():
    network = theirs("t5")
    weights = {
        name: w for name, w in network.state_dict().items() if not name.startswith(("decoder", "lm_head"))
    }
    ours = from_hugging_face(weights, network.config)
    assert type(ours) is TokenModel
    close(ours(tokens()), network.encoder(tokens()).last_hidden_state, "t5")


@torch.no_grad()
def test_a_head_on_top_of_bert_is_left_out():
    from transformers import BertForMaskedLM

    network = theirs("bert")
    whole = BertForMaskedLM(network.config).double().eval()
    ours = from_hugging_face(whole.state_dict(), whole.config)
    close(ours(tokens()), whole.bert(tokens()).last_hidden_state, "bert")


@torch.no_grad()
def test_old_names_and_old_extras():
    network = theirs("bert")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): weight
        for name, weight in network.state_dict().items()
    }
    ours = from_hugging_face({**old, "embeddings.position_ids": torch.arange(40)[None]}, network.config)
    close(ours(tokens()), network(tokens()).last_hidden_state, "bert")
    gpt = theirs("gpt2")
    masks = {"h.0.attn.bias": torch.ones(1, 1, 40, 40), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    ours = from_hugging_face({**gpt.transformer.state_dict(), **masks}, gpt.config)
    close(ours(tokens()), gpt(tokens()).logits, "gpt2")
    llama = theirs("llama")
    angles = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}
    ours = from_hugging_face({**llama.state_dict(), **angles}, llama.config)
    close(ours(tokens()), llama(tokens()).logits, "llama")
