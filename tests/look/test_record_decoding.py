"""A text that comes token by token through a cache gives what it gives at once, and is one text."""

import numpy as np
import pytest
import torch
import transformers

from headwise.look import record
from tests.look import plainly
from tests.look.plainly import Text
from tests.look.recorded import CLOSE, check
from tests.look.test_hugging_face import attentions, inputs, model

ALIKE = ("entropy", "confidence", "distance", "spread", "self", "previous", "first", "special")
SPECIAL = [5, 9, 14]


def cache_for(network, kind):
    if kind == "static":
        return transformers.StaticCache(config=network.config, max_cache_len=11)
    return transformers.DynamicCache(config=network.config)


def in_steps(network, cache, sizes, **given):
    """Feed the tokens in pieces, with the mask of all so far."""
    done = 0
    for size in sizes:
        step = {"input_ids": given["input_ids"][:, done : done + size]}
        done += size
        if "attention_mask" in given:
            step["attention_mask"] = given["attention_mask"][:, :done]
        network(**step, cache=cache, use_cache=True)


def texts(p, given, place=0, queries=None):
    """Texts without padding; ``queries`` are those of another text."""
    keep = given.get("attention_mask", torch.ones_like(given["input_ids"])).bool().numpy()
    special = np.isin(given["input_ids"].numpy(), SPECIAL)
    found = []
    for row, of_row in enumerate(p.double().numpy()):
        alone = of_row[:, keep[row] if queries is None else queries][:, :, keep[row]]
        found.append(Text(alone, place=place, special=special[row][keep[row]]))
    return found


# a first step of padding alone would be no text: the row that has padding has two pads
@pytest.mark.parametrize("sizes", [(3, 1, 1, 1, 1), (4, 3)], ids=str)
@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["Llama", "Mistral"])
@torch.no_grad()
def test_in_steps_as_at_once(name, kind, side, sizes):
    given = inputs(name, side)
    wanted = model(name, "eager")(**given, output_attentions=True).attentions
    network = model(name, "sdpa")
    with record(network, special=SPECIAL) as recording:
        in_steps(network, cache_for(network, kind), sizes, **given)
    assert recording.documents == 2
    assert recording.coverage.largest_difference < 1e-5
    for layer, p in zip(recording.layers.values(), wanted, strict=True):
        agree(layer, texts(p, given))


@pytest.mark.parametrize("name", ["Bart", "T5"])
@torch.no_grad()
def test_a_decoder_in_steps(name):
    given = inputs(name, "right")
    tokens = given["input_ids"].flip(1)  # at some step as many as the encoder has
    wanted = attentions(
        model(name, "eager")(**{**given, "decoder_input_ids": tokens}, output_attentions=True)
    )
    network = model(name, "sdpa")
    with record(network, special=SPECIAL) as recording:
        cache, heard = None, None
        for token in tokens.T:
            step = {"decoder_input_ids": token[:, None], "attention_mask": given["attention_mask"]}
            first = {"input_ids": given["input_ids"]} if heard is None else {"encoder_outputs": heard}
            output = network(**first, **step, cache=cache, use_cache=True)
            cache, heard = output.cache, (output.encoder_last_hidden_state,)
    everything = {"input_ids": tokens}
    for layer, p in zip(recording.layers.values(), wanted, strict=True):
        assert layer.documents == 2
        if layer.calls == 1:  # the encoder's
            check(layer, texts(p, given))
        elif "encoder_attn" in layer.name or "EncDec" in layer.name:
            agree(layer, texts(p, given, place=None, queries=slice(None)))
        else:
            agree(layer, texts(p, everything))


def agree(layer, rows):
    """What a text read in steps has in common with one that is read at once."""
    for statistic in ALIKE:
        want = torch.from_numpy(plainly.mean(rows, statistic))
        torch.testing.assert_close(layer.sums.mean(statistic), want, atol=CLOSE, rtol=CLOSE, equal_nan=True)
    received, could = plainly.received(rows)
    torch.testing.assert_close(layer.sums.received, torch.from_numpy(received), atol=CLOSE, rtol=CLOSE)
    assert layer.sums.could.tolist() == could.tolist()
    if rows[0].place is not None:
        distances = torch.from_numpy(plainly.by_distance(rows))
        torch.testing.assert_close(layer.sums.by_distance(), distances, atol=CLOSE, rtol=CLOSE)


@torch.no_grad()
def test_texts_are_counted_when_they_begin():
    network = model("Llama", "sdpa")
    given = inputs("Llama", None)
    with record(network) as recording:
        for _ in range(2):
            in_steps(network, cache_for(network, "dynamic"), (4, 1, 1, 1), **given)
        network(input_ids=given["input_ids"][:1, :3])
        network(input_ids=torch.tensor([[7]]))  # a text of one token
    assert [layer.documents for layer in recording.layers.values()] == [6, 6]
    assert recording.layers["layers.0.self_attn"].sums.rows[0, 0] == 2 * 14 + 3 + 1


@torch.no_grad()
def test_a_prompt_that_was_read_before_is_no_part_of_the_recording():
    network = model("Llama", "sdpa")
    given = inputs("Llama", None)
    cache = cache_for(network, "dynamic")
    in_steps(network, cache, (4,), **given)
    with record(network, special=SPECIAL) as recording:
        network(input_ids=given["input_ids"][:, 4:], cache=cache)
    wanted = model("Llama", "eager")(**given, output_attentions=True).attentions
    for layer, p in zip(recording.layers.values(), wanted, strict=True):
        rows = [Text(one[:, 4:], place=4) for one in p.double().numpy()]
        check(layer, rows)
        assert layer.documents == 2
