"""Reads what a model's configuration says, an object or the dictionary of its JSON file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from headwise.core.errors import HeadwiseError

Activation = Callable[[Tensor], Tensor]
_TANH_GELU = partial(functional.gelu, approximate="tanh")
ACTIVATIONS: dict[str, Activation] = {
    "gelu": functional.gelu,
    "gelu_new": _TANH_GELU,
    "gelu_fast": _TANH_GELU,
    "gelu_pytorch_tanh": _TANH_GELU,
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
}


class Configuration:
    """The numbers of one model, by the names that its family gives them.

    >>> read = Configuration({"n_embd": 8, "scale_attn_weights": True}, who="gpt2")
    >>> read.count("hidden_size", "n_embd"), read.number("layer_norm_epsilon", default=1e-5)
    (8, 1e-05)
    """

    def __init__(self, config: object, *, who: str) -> None:
        self.config, self.who = config, who

    def get(self, *names: str, default: Any = None) -> Any:  # noqa: ANN401 - whatever a JSON file holds
        """The first of these that is there and not None."""
        for name in names:
            is_mapping = isinstance(self.config, Mapping)
            found = self.config.get(name) if is_mapping else getattr(self.config, name, None)  # type: ignore[attr-defined]
            if found is not None:
                return found
        return default

    def count(self, *names: str, default: int | None = None) -> int:
        """A size. Raises HeadwiseError if it is missing."""
        found = self.get(*names, default=default)
        if isinstance(found, int) and found > 0:
            return found
        raise self._missing(names[0], found, "a whole number above 0")

    def number(self, name: str, *, default: float | None = None) -> float:
        """A number. Raises HeadwiseError if it is missing."""
        found = self.get(name, default=default)
        if isinstance(found, (int, float)):
            return float(found)
        raise self._missing(name, found, "a number")

    def activation(self, *names: str, default: str) -> Activation:
        """The function of that name. Raises HeadwiseError for one that is not known."""
        found = self.get(*names, default=default)
        if found in ACTIVATIONS:
            return ACTIVATIONS[found]
        raise self._refused(names[0], f"one of {', '.join(ACTIVATIONS)}", found)

    def require(self, **needed: object) -> None:
        """Refuse options that change the formula in a way no module of ours follows.

        Each option must be what is given here, where the configuration has it at all.
        """
        for name, value in needed.items():
            found = self.get(name, default=value)
            if found != value:
                raise self._refused(name, repr(value), found)

    def require_one_of(self, name: str, values: Sequence[str]) -> None:
        """Refuse an option that is there and is none of these."""
        found = self.get(name, default=values[0])
        if found not in values:
            raise self._refused(name, f"one of {', '.join(values)}", found)

    def _missing(self, name: str, found: object, expected: str) -> HeadwiseError:
        return HeadwiseError(
            who=self.who,
            what=name,
            expected=f"{expected} in the configuration",
            got=repr(found),
            why="The shapes of weights do not tell it",
            do="Pass the whole configuration of the model, or add it",
        )

    def _refused(self, name: str, expected: str, found: object) -> HeadwiseError:
        return HeadwiseError(
            who=self.who,
            what=name,
            expected=expected,
            got=repr(found),
            why="Other settings are other formulas, which this conversion does not know",
            do="Build the model from headwise's parts and copy the weights by name",
        )


def layer_norm(eps: float) -> Callable[[int], nn.LayerNorm]:
    """What makes a LayerNorm of a width.

    >>> layer_norm(1e-12)(8).eps
    1e-12
    """
    return partial(nn.LayerNorm, eps=eps)
