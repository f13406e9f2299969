"""Puts the weights of a file into a module of ours: every one has a place, and every place gets one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError

Weights = Mapping[str, Tensor]
Names = Mapping[str, str]
M = TypeVar("M", bound=nn.Module)
_SHOWN = 4


def filled(
    build: Callable[[], M], weights: Weights, names: Names, *, who: str, unused: Iterable[str] = ()
) -> M:
    """A module from ``build`` with a copy of the weights in it, for evaluation.

    ``names`` maps their names to ours: of a module, for its weight and its bias, or of one tensor where the
    name ends in ``.weight``. What begins with a name in ``unused`` is let go. Nothing random is drawn. Raises
    HeadwiseError if a weight is missing, has no place, has another shape, or is not in floating point.

    >>> given = {"dense.weight": torch.ones(1, 2), "dense.bias": torch.zeros(1)}
    >>> filled(lambda: nn.ModuleDict({"output": nn.Linear(2, 1)}), given, {"dense": "output"}, who="tiny")
    ModuleDict(
      (output): Linear(in_features=2, out_features=1, bias=True)
    )
    """
    with torch.device("meta"):  # nothing is drawn, so the caller's seed stays as it was
        module = build()
    wanted = dict(module.named_parameters())
    places = {theirs: ours for theirs, ours in _whole(names).items() if ours in wanted}
    dropped = tuple(unused)
    given = {name: weight for name, weight in weights.items() if not name.startswith(dropped)}
    _check_names(given, places, who)
    _check_tensors(given, {theirs: wanted[ours] for theirs, ours in places.items()}, who)
    for theirs, ours in places.items():
        owner, _, name = ours.rpartition(".")
        copied = nn.Parameter(given[theirs].detach().clone(memory_format=torch.contiguous_format))
        setattr(module.get_submodule(owner), name, copied)
    return module.eval()


def numbered(names: Names, count: int) -> dict[str, str]:
    """The names of all layers, where ``{}`` stands for a layer's number.

    >>> numbered({"ln_f": "stack.norm", "h.{}.ln_1": "stack.blocks.{}.attention.norm"}, 2)["h.1.ln_1"]
    'stack.blocks.1.attention.norm'
    """
    return {
        theirs.format(layer): ours.format(layer)
        for theirs, ours in names.items()
        for layer in (range(count) if "{}" in theirs else [0])
    }


def within(names: Names, theirs: str, ours: str) -> dict[str, str]:
    """The names of a part, where it stands in a whole model.

    >>> within({"q_proj": "query"}, "layers.{}.self_attn", "stack.blocks.{}.attention.layer")
    {'layers.{}.self_attn.q_proj': 'stack.blocks.{}.attention.layer.query'}
    """
    return {f"{theirs}.{name}": f"{ours}.{place}" for name, place in names.items()}


def without_prefix(weights: Weights, prefix: str) -> dict[str, Tensor]:
    """The weights with a prefix taken off where they have it.

    A model with a head on top keeps its body's weights under such a prefix.

    >>> list(without_prefix({"bert.pooler.weight": torch.ones(1), "cls.bias": torch.ones(1)}, "bert."))
    ['pooler.weight', 'cls.bias']
    """
    return {name.removeprefix(prefix): weight for name, weight in weights.items()}


def untied(weights: Weights, copies: Mapping[str, str], *, who: str) -> dict[str, Tensor]:
    """The weights with one name for a tensor that has several; a file may have any of them.

    ``copies`` maps each other name to the one that stays. Raises HeadwiseError where they differ.

    >>> table = torch.ones(2, 2)
    >>> list(untied({"lm_head.weight": table}, {"lm_head.weight": "embed.weight"}, who="tiny"))
    ['embed.weight']
    """
    left = dict(weights)
    for other, name in copies.items():
        copy = left.pop(other, None)
        if copy is None:
            continue
        kept = left.setdefault(name, copy)
        if kept is not copy and not torch.equal(kept, copy):
            raise HeadwiseError(
                who=who,
                what=other,
                expected=f"equal to {name}",
                got="other numbers",
                why="The configuration says that the two are one weight",
                do="Pass tie_word_embeddings=False in the configuration if they were trained apart",
            )
    return left


def _whole(names: Names) -> dict[str, str]:
    """Names of tensors for those of modules."""
    whole: dict[str, str] = {}
    for theirs, ours in names.items():
        if theirs.endswith(".weight"):
            whole[theirs] = ours
        else:
            whole |= {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}
    return whole


def _check_names(given: Weights, places: Names, who: str) -> None:
    missing = [name for name in places if name not in given]
    unknown = [name for name in given if name not in places]
    if not missing and not unknown:
        return
    raise HeadwiseError(
        who=who,
        what="the weights",
        expected=f"the {len(places)} that the configuration asks for",
        got=" and ".join(
            f"{len(found)} {kind} ({_listed(found)})"
            for found, kind in ((missing, "missing"), (unknown, "unknown"))
            if found
        ),
        why="A part without weights would be random, and a weight without a place would have no effect",
        do="Pass the whole state dict of one model and the configuration it was saved with",
    )


def _check_tensors(given: Weights, places: Weights, who: str) -> None:
    for name, place in places.items():
        weight = given[name]
        if weight.is_floating_point() and weight.shape == place.shape:
            continue
        raise HeadwiseError(
            who=who,
            what=name,
            expected=f"floating point of shape {list(place.shape)}",
            got=f"{str(weight.dtype).removeprefix('torch.')} of shape {list(weight.shape)}",
            why="The configuration says so",
            do="Pass the configuration it was saved with, and weights that are not quantized",
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
