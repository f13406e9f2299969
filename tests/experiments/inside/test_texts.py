"""What a command makes of its text: files, token text, and models that take something else."""

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.experiments.inside import given_text
from headwise.experiments.inside.pieces import readable_tokens
from headwise.experiments.inside.subject import Subject, subject_of
from headwise.models import Model, open_text_model
from tests.experiments.inside.models import causal_model


def test_a_file_is_read_and_anything_else_is_the_text(tmp_path):
    file = tmp_path / "chapter.txt"
    file.write_text("\ufeffTwo words\n", encoding="utf-8")
    assert given_text(str(file), who="inspect") == "Two words\n"
    for text in ("Two words", "notes about foo.txt", "3.5", "CC(=O)Cl.OCC>>CC", "C/C=C/C", "word " * 2000):
        assert given_text(text, who="inspect") == text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bytes.txt", b"caf\xe9 au lait", "a file in UTF-8"),
        ("zeros.txt", b"a\0b", "It holds zero bytes"),
        ("empty.txt", b" \n", "at least one word"),
        ("nothing.txt", None, "There is no file of that name"),
        ("folder", "folder", "a file that can be read"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, name, content, words):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(HeadwiseError) as caught:
        given_text(str(path), who="inspect")
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["foo.txt", "./notes", "~/a.md", "", "  ", "caf\udce9 bites"])
def test_words_that_are_none(text):
    with pytest.raises(HeadwiseError):
        given_text(text, who="inspect")


def test_tokens_read_as_in_the_text():
    text = "The caf\u00e9\n unbelievably \U0001f98a"
    for name in (None, "smollm2"):
        model = open_text_model(name)
        encoded = model.encode(text)
        tokens = readable_tokens(text, encoded, model.tokenizer)
        assert len(tokens) == len(encoded.tokens)
        if name is None:
            assert tokens == encoded.tokens  # WordPiece already reads as text
        else:
            assert tokens[:3] == ["The", " caf\u00e9", "\n"]
            assert tokens[-1] == "\U0001f98a", "part of a letter reads as that letter"


def test_a_plain_model_that_fails_says_how():
    with pytest.raises(HeadwiseError, match=r"token numbers of shape \[1, 2\], got IndexError"):
        subject_of(Model("tiny", torch.nn.Embedding(3, 2)), "1,7").run()


def test_a_plain_model_runs_without_gradients():
    assert not subject_of(Model("tiny", torch.nn.Embedding(3, 2)), "1 2").run().requires_grad


def test_logits_are_computed_for_the_last_token_alone(minilm):
    subject = subject_of(causal_model(minilm), "The cat sat on the mat.")
    assert subject.run(logits_to_keep=1, use_cache=False).logits.shape[1] == 1
    assert subject.run(use_cache=False).past_key_values is None
    assert subject.run().logits.shape[1] == len(subject.tokens)


class _Strict(torch.nn.Module):
    """Takes token numbers and nothing else."""

    def forward(self, input_ids):
        return input_ids


def test_options_that_a_model_does_not_know_are_left_out():
    subject = Subject("strict", _Strict(), ["a"], inputs={"input_ids": torch.tensor([[1]])})
    assert subject.run(logits_to_keep=1, use_cache=False).tolist() == [[1]]
