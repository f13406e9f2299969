"""What modules were called with: whose tokens, whose mask, and where keys come from."""

import pytest
import torch
from torch import nn

from headwise.look.recordings.given import Given, around_attention
from headwise.look.recordings.origin import from_itself


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(4, 4)

    def forward(self, hidden_states, key_value_states=None):
        return hidden_states


class Both(nn.Module):
    """An encoder and a decoder in one model, whose decoder is given states and no tokens."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Attention(), Attention()

    def forward(self, input_ids, attention_mask=None, decoder_input_ids=None):
        self.encoder(torch.zeros(*input_ids.shape, 4))
        self.decoder(torch.zeros(*decoder_input_ids.shape, 4))


def test_tokens_and_mask_of_an_encoder_are_not_those_of_its_decoder():
    model, given, ids = Both(), Given(), torch.tensor([[5, 6, 7]])
    with given.watching(model):
        model(ids, torch.tensor([[1, 1, 0]]), decoder_input_ids=ids + 1)
    assert given.attention_mask("decoder") is None
    assert given.tokens("decoder") is None
    assert torch.equal(given.other_tokens(), ids)
    assert given.itself("decoder") is True


def test_tokens_come_together_until_a_text_begins():
    model, given = nn.Embedding(9, 2), Given()
    with given.watching(model):
        for token in (3, 4, 5):
            model(torch.tensor([[token]]))
        assert given.tokens("any.module").tolist() == [[3, 4, 5]]
        given.begins("any.module")
        assert given.tokens("any.module").tolist() == [[5]]
        model(torch.tensor([[6], [7]]))  # another batch
        assert given.tokens("").tolist() == [[6], [7]]
    model(torch.tensor([[8]]))
    assert given.tokens("").tolist() == [[6], [7]]
    assert not model._forward_pre_hooks


x, y = torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)


@pytest.mark.parametrize(
    ("arguments", "itself"),
    [
        ({"hidden_states": x, "residual": y, "alibi": y}, True),
        ({"hidden_states": x, "key_value_states": y}, False),
        ({"hidden_states": x, "key_value_states": x}, True),
        ({"hidden_states": x, "encoder_hidden_states": y[:, :2]}, False),
        ({"query": x, "key": x, "value": y}, True),
        ({"query": x.transpose(0, 1), "key": x.transpose(0, 1)}, True),  # two views of the same
        ({"query": x, "key": x[:, :2]}, False),
        ({"x": x, "mask": None}, True),
        ({"latents": x, "pixels": y}, None),
        ({"x": None}, None),
    ],
)
def test_where_keys_come_from(arguments, itself):
    assert from_itself(arguments) is itself


def test_modules_around_attention():
    model = nn.ModuleDict({"body": nn.ModuleDict({"attn": Attention()}), "head": nn.Linear(4, 4)})
    assert [path for path, _ in around_attention(model)] == ["", "body", "body.attn"]
