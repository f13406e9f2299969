"""Real models built from our layers: the hidden states and the text that transformers gives."""

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.layers import generate
from headwise.models import Model, as_headwise, open_text_model

CLOSE = {"atol": 1e-4, "rtol": 0}  # float32 through 6 and 30 layers, whose states grow to 5 and 400


@torch.no_grad()
def test_minilm_with_a_padded_row():
    model = open_text_model(attention="eager")
    ours = as_headwise(model)
    texts = ["The cat sat on the mat, and the dog did not mind at all.", "Shares dropped on Wall Street."]
    given = model.tokenizer(texts, padding=True, return_tensors="pt")
    keep = given["attention_mask"].bool()
    assert not keep.all()
    theirs = model.network(**given).last_hidden_state
    mine = ours(given["input_ids"], keep=keep, segments=given["token_type_ids"])
    torch.testing.assert_close(mine[keep], theirs[keep], **CLOSE)
    assert theirs[keep].abs().max() > 1


@torch.no_grad()
def test_smollm2_with_a_row_padded_on_the_left_and_a_hundred_tokens_of_text(smollm2):
    """Their scores on our text pick our text, token by token: their greedy decoding writes the same."""
    ours = as_headwise(smollm2)
    texts = ["The capital of France is Paris, and the capital of Germany is", "Once upon a time there was"]
    rows = [smollm2.tokenizer(text)["input_ids"] for text in texts]
    longest = max(map(len, rows))
    tokens = torch.tensor([[2] * (longest - len(row)) + row for row in rows])
    keep = torch.tensor([[False] * (longest - len(row)) + [True] * len(row) for row in rows])
    assert keep[0].all()
    assert not keep[1].all()
    text = generate(ours, tokens, 100, keep=keep)
    real = torch.cat((keep, torch.ones(2, 100, dtype=torch.bool)), dim=1)
    positions = (real.long().cumsum(1) - 1).clamp(min=0)
    theirs = smollm2.network(
        text, attention_mask=real.long(), position_ids=positions, output_hidden_states=True
    )
    hidden = ours.hidden(text, keep=real)
    torch.testing.assert_close(hidden[real], theirs.hidden_states[-1][real], **CLOSE)
    torch.testing.assert_close(ours.logits(hidden)[real], theirs.logits[real], **CLOSE)
    assert torch.equal(theirs.logits[:, longest - 1 : -1].argmax(-1), text[:, longest:])
    assert smollm2.tokenizer.decode(text[0, longest : longest + 1]) == " Berlin"


def test_other_models_are_refused():
    with pytest.raises(HeadwiseError, match="model_type must be one of bert"):
        as_headwise(Model("plain", torch.nn.Linear(2, 2)))
