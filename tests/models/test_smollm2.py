"""SmolLM2 is the trained model: it expects English, knows a capital, and its tokens give the text back."""

import torch

from headwise.models.smollm2 import undo_rotary_order

TIDES = (
    "The tides are the regular rise and fall of the sea. They are caused mainly by the gravity of the Moon, "
    "which pulls on the water of the side of the Earth that faces it more strongly than on the Earth as a "
    "whole. Most coasts see two high tides and two low tides each day, and the times shift by about fifty "
    "minutes from one day to the next."
)


@torch.no_grad()
def perplexity(model, ids):
    """exp of the mean of -log p(next token), from the logits."""
    log_p = model.network(input_ids=ids).logits[0, :-1].double().log_softmax(-1)
    return float((-log_p.gather(-1, ids[0, 1:, None]).mean()).exp())


def test_english_is_expected_and_shuffled_english_is_not(smollm2):
    ids = smollm2.encode(TIDES).inputs["input_ids"]
    shuffled = ids[:, torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(0))]
    assert perplexity(smollm2, ids) < 20
    assert perplexity(smollm2, shuffled) > 500


@torch.no_grad()
def test_it_knows_a_capital(smollm2):
    logits = smollm2.network(**smollm2.encode("The capital of France is").inputs).logits
    assert smollm2.tokenizer.decode(logits[0, -1].argmax()) == " Paris"


def test_tokens_give_the_text_back(smollm2):
    text = "Round trip: caf\u00e9, 1234567 <|im_start|>  two\n\tspaces \u00f1 \u6f22\u5b57 \U0001f642"
    encoded = smollm2.encode(text)
    assert smollm2.tokenizer.decode(encoded.inputs["input_ids"][0]) == text
    assert {"1", "2", "<|im_start|>", "\u0120two"} <= set(encoded.tokens)
    assert encoded.spans[:3] == [(0, 5), (5, 10), (10, 11)]  # "Round", " trip", ":"


def test_its_shape_and_its_weights_are_seen(smollm2):
    reading = smollm2.read("The capital of France is")
    assert reading.weights.shape == (30, 9, 5, 5)
    assert reading.hidden.shape == (31, 5, 576)
    assert (reading.weights.triu(1) == 0).all()
    torch.testing.assert_close(reading.weights.sum(-1), torch.ones(30, 9, 5))
    config = smollm2.network.config
    assert (config.num_key_value_heads, config.max_position_embeddings) == (3, 8192)
    assert config.rope_parameters["rope_theta"] == 100_000


def test_rotary_order_is_undone_for_each_head():
    # a head of 6: the file has pairs (0, 3), (1, 4), (2, 5) side by side
    stored = torch.tensor([0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15])[:, None]
    assert undo_rotary_order(stored, heads=2).flatten().tolist() == [*range(6), *range(10, 16)]
