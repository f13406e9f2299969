"""Models of tokens: causal, blind to padding, whole under headwise.check, and every weight learns."""

from functools import partial

import pytest
import torch
from torch import nn

from headwise import check
from headwise.core import Causal, Documents, Padding
from headwise.layers import (
    ALiBi,
    Decoder,
    Encoder,
    LanguageModel,
    MultiHeadAttention,
    TokenEmbedding,
    make_blocks,
)
from tests.layers.transformer.small import (
    MODEL_DIM,
    MODELS,
    VOCABULARY,
    WRITERS,
    bert,
    blocks,
    exact,
    gpt,
    llama,
    random_tokens,
    translator,
)

# Two layers of float64 sums of some 40 terms of size about 1, in another order.
EXACT = {"rtol": 0.0, "atol": 1e-12}
LEFT = torch.tensor([[False, False, True, True, True], [True] * 5])
RIGHT = LEFT.flip(1)
every_model = pytest.mark.parametrize("name", MODELS)


def verdicts(checked):
    assert [outcome.name for outcome in checked.failures] == []
    return {outcome.name for outcome in checked.outcomes if outcome.verdict == "holds"}


def test_check_finds_no_fault_in_a_writer():
    checked = check.model(llama(), expect="causal order-aware relative", make=llama)
    assert {"causality", "shift", "left padding", "right padding", "lifecycle"} <= verdicts(checked)


@pytest.mark.parametrize("name", WRITERS)
def test_writers_are_causal_and_blind_to_padding(name):
    checked = check.model(MODELS[name](), expect="causal", only="causality padding")
    assert verdicts(checked) == {"causality", "left padding", "right padding", "pad content"}


def test_check_finds_no_fault_in_an_encoder():
    checked = check.model(bert(), expect="bidirectional order-aware", make=bert)
    assert {"left padding", "right padding", "lifecycle"} <= verdicts(checked)


def test_check_finds_no_fault_in_blocks_with_a_memory():
    """A decoder that reads is causal in what it writes, whatever the memory."""
    torch.manual_seed(0)
    model = exact(translator)
    source = random_tokens(1, 6)

    def write(target):
        return model(source.expand(len(target), -1), target)

    assert check.causality(write, check.Tokens(VOCABULARY), lengths=(2, 5)).verdict == "holds"


@every_model
@pytest.mark.parametrize("keep", [LEFT, RIGHT], ids=["left", "right"])
def test_padded_rows_come_out_as_they_would_alone(name, keep):
    model, tokens = exact(MODELS[name]), random_tokens(2, 5)
    output = model(tokens, keep=keep)
    for row in range(2):
        alone = model(tokens[row][keep[row]][None])
        torch.testing.assert_close(output[row][keep[row]], alone[0], **EXACT)


@pytest.mark.parametrize("keep", [LEFT, RIGHT], ids=["left", "right"])
@pytest.mark.parametrize("padded", ["source", "target"])
def test_padded_rows_of_two_texts_come_out_as_they_would_alone(keep, padded):
    model, source, target = exact(translator), random_tokens(2, 5), random_tokens(2, 5)
    padding = {"keep": keep} if padded == "source" else {"target_keep": keep}
    output = model(source, target, **padding)
    for row in range(2):
        real = [source[row][None], target[row][None]]
        real[padded == "target"] = real[padded == "target"][:, keep[row]]
        shown = output[row][keep[row]] if padded == "target" else output[row]
        torch.testing.assert_close(shown, model(*real)[0], **EXACT)


@every_model
def test_keep_is_a_mask_and_positions(name):
    model, tokens = exact(MODELS[name]), random_tokens(2, 5)
    padding = Padding(LEFT)
    by_hand = model(tokens, mask=padding, positions=padding.positions())
    torch.testing.assert_close(model(tokens, keep=LEFT), by_hand, rtol=0.0, atol=0.0)


def test_packed_documents_come_out_as_they_would_alone():
    model, tokens = exact(gpt), random_tokens(1, 5)
    ids, positions = torch.tensor([[0, 0, 0, 1, 1]]), torch.tensor([[0, 1, 2, 0, 1]])
    output = model(tokens, mask=Documents(ids), positions=positions)
    apart = torch.cat((model(tokens[:, :3]), model(tokens[:, 3:])), dim=1)
    torch.testing.assert_close(output, apart, **EXACT)


def test_the_hidden_vectors_make_the_scores():
    model, tokens = exact(gpt), random_tokens(2, 5)
    by_hand = model.hidden(tokens) @ model.embedding.token.weight.T
    torch.testing.assert_close(model(tokens), by_hand, **EXACT)
    scaled = LanguageModel(model.embedding, model.stack, scale=MODEL_DIM**-0.5)
    torch.testing.assert_close(scaled(tokens), by_hand * MODEL_DIM**-0.5, **EXACT)


def test_segments_matter_and_are_the_first_unless_given():
    model, tokens = exact(bert), random_tokens(2, 5)
    zeros = torch.zeros_like(tokens)
    assert torch.equal(model(tokens), model(tokens, segments=zeros))
    assert not torch.allclose(model(tokens), model(tokens, segments=zeros + 1))


def test_an_encoder_sees_what_comes_after():
    model, tokens = exact(bert), random_tokens(1, 5)
    other = tokens.clone()
    other[0, 4] = (other[0, 4] + 1) % VOCABULARY
    assert not torch.allclose(model(tokens)[0, 0], model(other)[0, 0])


@every_model
def test_every_weight_gets_a_gradient(name):
    model, tokens = exact(MODELS[name]), random_tokens(3, 20)
    output = model(tokens)
    (output * torch.randn_like(output)).sum().backward()
    for path, parameter in model.named_parameters():
        if not path.endswith("key.bias"):  # one number more on all scores of a query changes no weight
            assert parameter.grad.abs().max() > 0, path


def test_every_weight_of_an_encoder_and_decoder_gets_a_gradient():
    model = exact(translator)
    output = model(random_tokens(3, 9), random_tokens(3, 9))
    (output * torch.randn_like(output)).sum().backward()
    for path, parameter in model.named_parameters():
        if not path.endswith("key.bias"):
            assert parameter.grad.abs().max() > 0, path


def test_an_encoding_is_shared_by_the_blocks_or_each_has_its_own():
    shared = make_blocks(2, 8, attention=partial(MultiHeadAttention, heads=2, position=ALiBi(2)))
    apart = make_blocks(2, 8, attention=lambda width: MultiHeadAttention(width, 2, position=ALiBi(2)))
    first, second = (block.attention.layer.position for block in shared)
    assert first is second
    first, second = (block.attention.layer.position for block in apart)
    assert first is not second
    assert shared[0].attention.layer is not shared[1].attention.layer


def test_dropout_falls_on_the_embedding_and_around_each_layer_in_training_only():
    torch.manual_seed(0)
    model = gpt(dropout=0.5)
    tokens = random_tokens(2, 5)
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))
    for silent in (
        model.embedding.dropout,
        *(part.dropout for block in model.stack.blocks for part in block.children()),
    ):
        model.eval()
        silent.train()
        assert not torch.equal(model(tokens), model(tokens))


def test_causal_masks_of_a_layer_and_of_a_decoder_are_one():
    causal = Decoder(blocks(attention=lambda width: MultiHeadAttention(width, 2, mask=Causal())))
    plain = Encoder(causal.blocks)
    x = torch.randn(1, 5, MODEL_DIM)
    assert torch.equal(causal(x), plain(x))


def test_a_scale_multiplies_the_words_alone():
    plain, scaled = TokenEmbedding(VOCABULARY, 8), TokenEmbedding(VOCABULARY, 8, scale=8**0.5)
    scaled.load_state_dict(plain.state_dict())
    tokens = random_tokens(1, 4)
    assert torch.equal(scaled(tokens), plain(tokens) * 8**0.5)


def test_blocks_can_differ():
    stack = Encoder([*blocks(1), *blocks(1, norm=nn.RMSNorm)])
    assert stack(torch.randn(1, 5, MODEL_DIM)).shape == (1, 5, MODEL_DIM)
