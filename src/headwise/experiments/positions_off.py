"""Switches a trained model's positions off, to see what it knows without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# tables that are added to the embeddings, or (the last one) looked up by distance and added to the scores
_TABLES = ("position_embeddings", "position_embedding", "embed_positions", "wpe", "relative_attention_bias")


@contextmanager
def positions_off(network: nn.Module) -> Iterator[list[str]]:
    """Run a Hugging Face model as if no token stood anywhere; gives the names of what was switched off.

    Tables of positions give zeros, rotary encodings turn by nothing. An empty list means that nothing was
    found. The model is unchanged afterwards.

    >>> network = nn.ModuleDict({"position_embeddings": nn.Embedding(4, 2)})
    >>> with positions_off(network) as names:
    ...     print(names, network["position_embeddings"](torch.tensor([3])).tolist())
    ['position_embeddings'] [[0.0, 0.0]]
    """
    handles, names = [], []
    for name, module in network.named_modules():
        if name.rpartition(".")[2] in _TABLES and isinstance(module, nn.Embedding):
            handles.append(module.register_forward_hook(_zeros))
        elif type(module).__name__.endswith("RotaryEmbedding"):
            handles.append(module.register_forward_hook(_no_turn))
        else:
            continue
        names.append(name)
    try:
        yield names
    finally:
        for handle in handles:
            handle.remove()


def _zeros(module: nn.Module, args: object, output: Tensor) -> Tensor:
    return torch.zeros_like(output)


def _no_turn(module: nn.Module, args: object, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    cosine, sine = output
    return torch.ones_like(cosine), torch.zeros_like(sine)
