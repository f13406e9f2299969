"""What a model was called with: its token numbers and its padding mask, for the calls of that pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch
from jaxtyping import Bool
from torch import Tensor, nn

_NUMBERS = ("input_ids", "decoder_input_ids")


class Given:
    """Watches the inputs of the whole model, before its layers run.

    >>> model, given = torch.nn.Embedding(9, 2), Given(special=[1])
    >>> with given.watching(model):
    ...     output = model(torch.tensor([[1, 7, 8]]))
    >>> given.special_keys(1, 3)
    tensor([[ True, False, False]])
    """

    def __init__(self, special: Iterable[int]) -> None:
        self._special = torch.tensor(sorted(set(special)), dtype=torch.long)
        self._now: list[Tensor] = []
        self._before: list[Tensor] = []
        self.attention_mask: Tensor | None = None

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """A block in which every call of the model is noted."""
        handle = model.register_forward_pre_hook(self._note, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def special_keys(self, batch: int, keys: int) -> Bool[Tensor, "batch key"] | None:
        """Which keys are special tokens, where the model was given their numbers, now or into a cache."""
        for numbers in self._now:
            if numbers.shape == (batch, keys):
                self._before = []  # a text that begins here
        for numbers in (*self._now, *self._before):
            if len(self._special) and numbers.shape == (batch, keys):
                return torch.isin(numbers, self._special.to(numbers.device))
        return None

    def _note(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():
            return
        mask = kwargs.get("attention_mask")
        two_axes = isinstance(mask, Tensor) and mask.dim() == 2
        self.attention_mask = mask.detach().bool() if two_axes and mask is not None else None
        inputs: list[Any] = [*(kwargs.get(name) for name in _NUMBERS), *args[:1]]
        found = [x for x in inputs if _are_numbers(x)]
        pairs = [(old, new) for old in self._before or self._now for new in found]
        self._before = [torch.cat(pair, dim=1) for pair in pairs if pair[0].shape[0] == pair[1].shape[0]]
        self._now = found


def _are_numbers(x: object) -> TypeGuard[Tensor]:
    return isinstance(x, Tensor) and x.dim() == 2 and not x.is_floating_point() and x.dtype != torch.bool
