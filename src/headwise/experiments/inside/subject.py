"""What a command runs: a model and the tokens of one text, ready to be called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.experiments.inside.pieces import readable_tokens
from headwise.models import Model, TextModel

_NUMBERS = re.compile(r"\s*\d+(?:[\s,]+\d+)*[\s,]*")
_MOST_DIGITS = 18  # of a token's number, which must fit 64 bits


@dataclass(frozen=True)
class Subject:
    """A model with one text: ``run()`` calls it once, without gradients.

    ``trained_length`` is how many positions it was trained for, None if it does not say; ``layers`` how many
    layers its configuration names; ``options`` are keyword arguments that save work.
    """

    name: str
    network: nn.Module
    tokens: list[str]
    args: tuple[Tensor, ...] = ()
    inputs: dict[str, Tensor] = field(default_factory=dict)
    special: list[int] = field(default_factory=list)
    trained_length: int | None = None
    layers: int | None = None

    @torch.no_grad()
    def run(self, **options: Any) -> Any:  # noqa: ANN401 - whatever the model gives
        """The model's output. Raises HeadwiseError if a plain model fails on the token numbers."""
        known = inspect.signature(self.network.forward).parameters
        options = {name: value for name, value in options.items() if name in known}
        if not self.args:
            return self.network(**self.inputs, **options)
        try:
            return self.network(*self.args)
        except HeadwiseError:
            raise
        except Exception as error:  # foreign code may raise anything
            reason = " ".join(str(error).split()).rstrip(".") or "without a message"
            raise HeadwiseError(
                who=self.name,
                what="the model",
                expected=f"one that can be called with token numbers of shape {list(self.args[0].shape)}",
                got=f"{type(error).__name__}: {reason}",
                why="That is all a command can give to a plain PyTorch model",
                do="Give numbers that it knows, or use headwise.look from Python with inputs of your own",
            ) from error


def subject_of(model: Model, text: str) -> Subject:
    """The model and the text as it takes it.

    A plain PyTorch model has no tokenizer: its text are token numbers, such as ``5,17,3``, and it is called
    with one tensor of them, ``[1, length]``. Raises HeadwiseError if the model takes something else, or if
    the text is too long for it.

    >>> subject_of(Model("tiny", nn.Embedding(9, 2)), "5, 0, 3").run().shape
    torch.Size([1, 3, 2])
    """
    if isinstance(model, TextModel):
        encoded = model.encode(text)
        if not encoded.tokens:
            raise _refused(model.name, "a text of at least one token", text, "The tokenizer finds none in it")
        return Subject(
            model.name,
            model.network,
            readable_tokens(text, encoded, model.tokenizer),
            inputs=encoded.inputs,
            special=_whole(model.tokenizer.all_special_ids),
            trained_length=model.longest,
            layers=getattr(model.network.config, "num_hidden_layers", None),
        )
    if type(model) is not Model:
        raise _refused(model.name, "left out", text, f"A {type(model).__name__} takes no text alone")
    if not _NUMBERS.fullmatch(text):
        raise _refused(
            model.name, "token numbers such as 5,17,3", text, "A plain PyTorch model has no tokenizer"
        )
    words = re.findall(r"\d+", text)
    if any(len(word) > _MOST_DIGITS for word in words):
        raise _refused(
            model.name, "token numbers of 64 bits", text, "No table of embeddings has so many rows"
        )
    return Subject(model.name, model.network, words, args=(torch.tensor([[int(word) for word in words]]),))


def _whole(numbers: Iterable[Any]) -> list[int]:
    return [int(number) for number in numbers if number is not None]


def _refused(name: str, expected: str, text: str, why: str) -> HeadwiseError:
    return HeadwiseError(
        who=name,
        what="the text",
        expected=expected,
        got=repr(text if len(text) <= 60 else f"{text[:59]}~"),
        why=why,
        do="Give token numbers to a plain model, words to a text model, or leave --model out",
    )
