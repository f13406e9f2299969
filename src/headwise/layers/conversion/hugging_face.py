"""From the weights and the configuration of a Hugging Face model to ours, by the name of its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import nn

from headwise.core.errors import HeadwiseError
from headwise.layers.conversion.bert import bert
from headwise.layers.conversion.configuration import Configuration
from headwise.layers.conversion.files import read_configuration, read_safetensors
from headwise.layers.conversion.filling import Weights
from headwise.layers.conversion.gpt2 import gpt2
from headwise.layers.conversion.llama import KINDS, llama
from headwise.layers.conversion.mpnet import mpnet
from headwise.layers.conversion.t5 import t5

FAMILIES: dict[str, Callable[[Weights, object], nn.Module]] = {
    "bert": bert,
    "gpt2": gpt2,
    "mpnet": mpnet,
    "t5": t5,
    **dict.fromkeys(KINDS, llama),
}


def from_hugging_face(weights: Weights | str | Path, config: object = None) -> nn.Module:
    """A model of ours that gives what the Hugging Face model gives.

    An encoder comes as a `TokenModel`, a decoder as a `LanguageModel`, T5 as a `Transformer`. It is in
    evaluation, in the dtype of the weights, and has weights of its own. None of transformers' code runs.

    Args:
        weights: a state dict, a safetensors file, or a folder of them.
        config: the model's configuration, an object or the dictionary of its JSON; ``config.json`` beside the
            files unless given.

    Raises HeadwiseError for a family that is not known, for a file that is damaged or pickled, for a weight
    that is missing, has no place or has another shape, and for a configuration of another formula.

    >>> names = {"embeddings.word_embeddings.weight": torch.zeros(9, 8)}
    >>> from_hugging_face(names, {"model_type": "bloom"})
    Traceback (most recent call last):
    ...
    headwise.errors.HeadwiseError: from_hugging_face: model_type must be one of bert, gpt2, mpnet, t5, \
llama, mistral, qwen2, qwen3, got 'bloom'. Each family has names and formulas of its own. Build the model \
from headwise's parts and copy the weights by name.
    """
    if isinstance(weights, (str, Path)):
        config = read_configuration(weights) if config is None else config
        weights = read_safetensors(weights)
    if not isinstance(weights, Mapping):
        raise HeadwiseError(
            who="from_hugging_face",
            what="weights",
            expected="a state dict, or the path of a safetensors file",
            got=type(weights).__name__,
            why="Weights are found by their names",
            do="Pass model.state_dict() and model.config",
        )
    read = Configuration(config, who="from_hugging_face")
    kind = read.get("model_type")
    if kind not in FAMILIES:
        raise HeadwiseError(
            who="from_hugging_face",
            what="model_type",
            expected=f"one of {', '.join(FAMILIES)}",
            got=repr(kind),
            why="Each family has names and formulas of its own",
            do="Build the model from headwise's parts and copy the weights by name",
        )
    return FAMILIES[kind](weights, config)
