"""Finds the width of the vectors, or the number of tokens, that a layer or model takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headwise.check.inputs import Tokens
from headwise.check.subjects.signature import Thing

_NAMES = ("embed_dim", "model_dim", "d_model", "hidden_size", "n_embd", "dim", "width", "embedding_dim",
          "hidden_dim", "emb_dim", "in_features", "in_dim", "input_dim", "d_in", "dim_model",
          "channels", "features")  # fmt: skip
_SPECIAL = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "sep_token_id",
    "mask_token_id",
)


def widths(thing: object) -> Iterator[tuple[int, str]]:
    """The widths it may take, the likeliest first, each with where it was read.

    >>> next(widths(torch.nn.MultiheadAttention(12, 2)))
    (12, 'embed_dim')
    """
    for name in _NAMES:
        for holder, prefix in ((thing, ""), (getattr(thing, "config", None), "config.")):
            value = getattr(holder, name, None)
            if isinstance(value, int) and value > 0:
                yield value, f"{prefix}{name}"
    if isinstance(thing, nn.Module):
        for name, module in thing.named_modules():
            if isinstance(module, nn.Linear):
                yield module.in_features, f"{name}.in_features" if name else "in_features"
        for name, parameter in thing.named_parameters():
            if parameter.dim() >= 1:
                yield parameter.shape[-1], f"the last axis of {name}"


def tokens(thing: Thing) -> tuple[Tokens, str] | None:
    """The tokens a model takes, seen by the embedding that receives them; None if none does.

    >>> tokens(torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 4)))
    (Tokens(vocabulary=9, avoid=(), dtype=torch.float32, regroups=0), 'the table at 0')
    """
    if not isinstance(thing, nn.Module):
        return None
    given = torch.tensor([[0, 1, 0, 1, 1], [1, 1, 0, 1, 0]])
    received: list[tuple[str, nn.Embedding]] = []
    handles = [
        module.register_forward_pre_hook(_note(received, name, module, given))
        for name, module in thing.named_modules()
        if isinstance(module, nn.Embedding)
    ]
    device = next((parameter.device for parameter in thing.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            thing(given.to(device))
    except Exception:
        pass
    finally:
        for handle in handles:
            handle.remove()
    if not received:
        return None
    name, table = received[0]
    special = {table.padding_idx, *(getattr(getattr(thing, "config", None), each, None) for each in _SPECIAL)}
    avoid = tuple(sorted(number for number in special if isinstance(number, int)))
    dtype = table.weight.dtype
    return Tokens(table.num_embeddings, avoid, dtype), f"the table at {name or 'the top'}"


def _note(received: list[tuple[str, nn.Embedding]], name: str, module: nn.Embedding, given: Tensor) -> Thing:
    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor) and torch.equal(inputs[0].cpu(), given):
            received.append((name, module))

    return hook
