"""The same architecture without its training: what a battery of roles must find nothing in."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn

from headwise.core import HeadwiseError
from headwise.models import TextModel
from headwise.models.packages import need_transformers
from headwise.models.weights import built_without_touching_the_seed


def untrained_copy(model: TextModel, seed: int) -> TextModel:
    """The model with weights drawn anew, as they are before training; the original stays as it is.

    A model of transformers draws as its class does; any other by its modules' ``reset_parameters``. Nothing
    else changes: the kernel, the dtype, the place, the tokenizer; the copy is in evaluation mode. Random
    numbers of the caller are left as they were.

    Raises HeadwiseError if the network owns weights that nothing draws anew.

    >>> from headwise.models import open_model
    >>> trained = open_model()
    >>> untrained = untrained_copy(trained, seed=0)
    >>> [bool(one.network.encoder.layer[0].output.dense.bias.any()) for one in (trained, untrained)]
    [True, False]
    """
    return replace(model, network=built_without_touching_the_seed(lambda: _drawn(model, seed)))


def _drawn(model: TextModel, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    network = deepcopy(model.network)
    if isinstance(network, need_transformers().PreTrainedModel):
        _take(network, type(network)(deepcopy(network.config)))
    else:
        _reset(network, model.name)
    return network.eval()


@torch.no_grad()
def _take(network: nn.Module, fresh: nn.Module) -> None:
    """Weights by name, so that parts which the copy lacks, as a pooler that was left out, stay out."""
    drawn = dict(fresh.named_parameters())
    for name, weight in network.named_parameters():
        weight.copy_(drawn[name])


@torch.no_grad()
def _reset(network: nn.Module, name: str) -> None:
    """Inner modules first: an outer one that draws weights of its parts has the last word, as when built."""
    for weight in network.parameters():
        if weight.is_floating_point():
            weight.fill_(torch.nan)
    for module in reversed(list(network.modules())):
        for method in (
            "reset_parameters",
            "_reset_parameters",
        ):  # the second is that of torch's own attention
            draw = getattr(module, method, None)
            if callable(draw):
                draw()
    old = [name for name, weight in network.named_parameters() if bool(weight.isnan().any())]
    if old:
        raise HeadwiseError(
            who=name,
            what="the network",
            expected="made of modules that have reset_parameters",
            got=f"{len(old)} weights that none of them draws, the first {old[0]}",
            why="An untrained copy must keep nothing of what was learned",
            do="Give the module that owns the weight a method reset_parameters that draws it",
        )
