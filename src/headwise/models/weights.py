"""Puts weights into a network: all of them, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.models.binary import Damaged, reading


def built_without_touching_the_seed(build: Callable[[], Any]) -> Any:  # noqa: ANN401 - a class of transformers
    """What ``build`` gives, with the random numbers of the caller left as they were.

    >>> _ = torch.manual_seed(0)
    >>> _ = built_without_touching_the_seed(lambda: nn.Linear(2, 2))
    >>> bool(torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(0)))
    True
    """
    with torch.random.fork_rng(devices=[]):
        return build()


def fill(
    network: nn.Module,
    weights: dict[str, Tensor],
    *,
    who: str,
    lacking: Iterable[str] = (),
    assign: bool = False,
) -> None:
    """Give a network its weights by name; only parts whose names start with ``lacking`` may go without.

    ``assign`` uses the tensors themselves instead of copying them. Raises HeadwiseError if a weight is
    missing, is unknown, or has another shape, so that no part stays random in silence.

    >>> layer = nn.Linear(2, 1)
    >>> fill(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, who="tiny")
    >>> layer(torch.ones(2))
    tensor([2.], grad_fn=<ViewBackward0>)
    """
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in weights and not name.startswith(tuple(lacking))]
    unknown = [name for name in weights if name not in wanted]
    reshaped = [name for name in weights if name in wanted and weights[name].shape != wanted[name].shape]
    if missing or unknown or reshaped:
        raise HeadwiseError(
            who=who,
            what="the weights",
            expected=f"those of {type(network).__name__}",
            got=f"{len(missing)} missing, {len(unknown)} unknown and {len(reshaped)} of another shape",
            why=f"The first is {(missing + unknown + reshaped)[0]}, and the model would be partly random",
            do="Install the package again, in the version that headwise names",
        )
    network.load_state_dict(weights, strict=False, assign=assign)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """What ``torch.save`` wrote, read without running any code that a pickled file may hold.

    Raises HeadwiseError if the file is missing, damaged, or holds anything but tensors by name.
    """
    with reading(path, expected="a file of tensors by name, as torch.save writes them"):
        try:
            stored = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception as error:  # torch raises many kinds, some with pages of advice
            raise Damaged(f"It cannot be read with weights_only=True ({type(error).__name__})") from error
        if not isinstance(stored, dict) or not all(isinstance(value, Tensor) for value in stored.values()):
            raise Damaged("It holds other things than tensors by name")
    return stored
