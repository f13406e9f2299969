"""Models that read text: what a text is to them, and what they make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.models.length import goes_on, trained_length
from headwise.models.model import Model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class EncodedText:
    """A text as a model takes it: ``model.network(**encoded.inputs)``.

    ``spans`` are each token's first character and the one after its last (both 0 for special tokens).
    """

    tokens: list[str]
    spans: list[tuple[int, int]]
    inputs: dict[str, Tensor]


@dataclass(frozen=True)
class Reading:
    """What a model made of a text.

    ``spans`` are each token's first character and the one after its last (both 0 for special tokens);
    ``hidden[0]`` is the model's input and ``hidden[-1]`` its output.
    """

    tokens: list[str]
    spans: list[tuple[int, int]]
    hidden: Float[Tensor, "states token model_dim"]
    weights: Float[Tensor, "layer head query key"]

    def vector(self) -> Float[Tensor, " model_dim"]:
        """The text as one vector of length 1: the mean of the output over all tokens."""
        return nn.functional.normalize(self.hidden[-1].mean(0), dim=0)


@dataclass(frozen=True)
class TextModel(Model):
    """A trained text model with its tokenizer."""

    tokenizer: PreTrainedTokenizerBase

    @property
    def longest(self) -> int | None:
        """How many tokens the model was made for, None if it does not say."""
        return trained_length(self.network)

    def encode(self, text: str) -> EncodedText:
        """The text as tokens.

        A model that computes its positions, as rotary ones, takes texts longer than it was made for. Raises
        HeadwiseError if the text is longer than the table of a model that has one.
        """
        encoded = self.tokenizer(text, return_tensors="pt", return_offsets_mapping=True, verbose=False)
        spans = [(int(start), int(stop)) for start, stop in encoded.pop("offset_mapping")[0]]
        longest = self.longest
        if longest is not None and len(spans) > longest and not goes_on(self.network):
            raise HeadwiseError(
                who=self.name,
                what="the text",
                expected=f"at most {longest} tokens",
                got=f"{len(spans)}",
                why="The model has no positions beyond that",
                do="Shorten it",
            )
        tokens = [str(self.tokenizer.convert_ids_to_tokens(i)) for i in encoded["input_ids"][0].tolist()]
        return EncodedText(tokens, spans, dict(encoded))

    @torch.no_grad()
    def read(self, text: str) -> Reading:
        """Run the model on one text and keep every state and weight.

        Raises HeadwiseError if the text is longer than the model can take, or if the model was opened with
        fused attention, which shows no weights.
        """
        encoded = self.encode(text)
        output = self.network(**encoded.inputs, output_hidden_states=True, output_attentions=True)
        if not output.attentions or any(weights is None for weights in output.attentions):
            raise HeadwiseError(
                who=self.name,
                what="attention",
                expected="'eager' where the model itself is asked for its weights",
                got="'sdpa'",
                why="Fused kernels never build the weights",
                do="Open the model with attention='eager'",
            )
        hidden = torch.stack([state[0] for state in output.hidden_states])
        weights = torch.stack([weights[0] for weights in output.attentions])
        return Reading(encoded.tokens, encoded.spans, hidden, weights)
