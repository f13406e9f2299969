"""Annotated texts as a model's tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from headwise.annotations import AnnotatedText, words_of_tokens, words_with_tokens
from headwise.core import HeadwiseError
from headwise.look import AttentionCall, watch
from headwise.look.roles.labelled import Labelled
from headwise.models import TextModel

_LONGEST = 512  # tokens of a text: a whole matrix of each head is read


def tokenised(model: TextModel, texts: Iterable[AnnotatedText], *, causal: bool) -> list[Labelled]:
    """Each text with the model's tokens and their words, and how often each token occurs in all of them.

    Words that the tokenizer does not keep apart, such as a full stop and a quotation mark, are made one.

    Raises HeadwiseError if a text is longer than 512 tokens, or if a word that has labels has no token of its
    own.

    >>> from headwise.annotations import Word
    >>> from headwise.models import open_model
    >>> text = AnnotatedText("the refund", (Word("the", 0, 3), Word("refund", 4, 10)), "here", "one")
    >>> tokenised(open_model(), [text], causal=False)[0].words
    tensor([-1,  0,  1,  1, -1])
    """
    labelled = [_one(model, text, causal) for text in texts]
    size = 1 + max((int(text.ids.max()) for text in labelled), default=0)
    counts = sum((torch.bincount(text.ids, minlength=size) for text in labelled), torch.zeros(size).long())
    return [replace(text, counts=counts[text.ids]) for text in labelled]


def _one(model: TextModel, text: AnnotatedText, causal: bool) -> Labelled:
    encoded = model.encode(text.text)
    if len(encoded.tokens) > _LONGEST:
        raise HeadwiseError(
            who="roles",
            what="a text",
            expected=f"at most {_LONGEST} tokens",
            got=f"{len(encoded.tokens)} at {text.source}",
            why="Whole matrices of weights are read of each text",
            do="Split it at the end of a sentence",
        )
    ids = encoded.inputs["input_ids"][0]
    special = torch.isin(ids, torch.tensor(_special(model)))
    text = words_with_tokens(encoded.spans, text)
    return Labelled(ids, special, torch.tensor(words_of_tokens(encoded.spans, text)), text, causal)


def _special(model: TextModel) -> Sequence[int]:
    return [number for number in model.tokenizer.all_special_ids if number != model.tokenizer.unk_token_id]


def is_causal(model: TextModel) -> bool:
    """Whether tokens see none that come later, as the model's own attention calls tell.

    >>> from headwise.models import open_model
    >>> is_causal(open_model())
    False
    """
    later: list[bool] = []

    def take(call: AttentionCall) -> None:
        if call.q.shape[2] == call.k.shape[2] > 1:
            later.append(bool(call.weights().triu(1).any()))

    with watch(model.network, take), torch.no_grad():
        model.network(**model.encode("One and two and three.").inputs)
    if not later:
        raise HeadwiseError(
            who="roles",
            what="the model",
            expected="one whose tokens attend to each other",
            got=repr(model.name),
            why="No attention of a text to itself was seen",
            do="Look at its coverage with headwise inspect",
        )
    return not any(later)
