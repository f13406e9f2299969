"""What the modules of a model were called with: token numbers, padding masks, and where keys come from."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from headwise.core.masks import All, Padding
from headwise.look.calls.plain import wrapped
from headwise.look.calls.running import looks_like_attention, run_plainly
from headwise.look.recordings.origin import from_itself


@dataclass
class Note:
    """What one module was called with: last, and for its tokens in all calls of a text."""

    of_two: bool = False  # an encoder and a decoder: its tokens and its mask are the encoder's
    tokens: list[Tensor] = field(default_factory=list)
    mask: Tensor | None = None
    itself: bool | None = None


class Given:
    """Watches the inputs of attention modules and of all modules around them, before they run.

    >>> model, given = torch.nn.Embedding(9, 2), Given()
    >>> with given.watching(model):
    ...     output = model(torch.tensor([[1, 7, 8]]))
    >>> given.tokens("")
    tensor([[1, 7, 8]])
    """

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """A block in which every call of the model is noted."""
        handles = []
        try:
            for path, module in around_attention(model):
                handles.append(module.register_forward_pre_hook(self._starts(path, module), with_kwargs=True))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def itself(self, path: str) -> bool | None:
        """Whether the attention module at or around ``path`` takes its keys from the text of its queries."""
        return next((note.itself for note in self._around(path) if note.itself is not None), None)

    def begins(self, path: str) -> None:
        """A text begins in the call that is running: forget the tokens before."""
        for note in self._around(path):
            del note.tokens[:-1]

    def tokens(self, path: str) -> Int[Tensor, "batch length"] | None:
        """The tokens of the running text so far, padding included, where their numbers were given."""
        note = next((note for note in self._around(path) if note.tokens and not note.of_two), None)
        if note is None:
            return None
        last = note.tokens[-1]
        return torch.cat([x for x in note.tokens if x.shape[0] == last.shape[0]], dim=1)

    def other_tokens(self) -> Int[Tensor, "batch length"] | None:
        """The tokens of the text that an encoder read, for the cross-attention of its decoder."""
        note = self._notes.get("", Note())
        return note.tokens[-1] if note.of_two and note.tokens else None

    def attention_mask(self, path: str) -> Bool[Tensor, "batch length"] | None:
        """The mask of real tokens given to the nearest module around ``path`` that was given a text."""
        for note in self._around(path):
            if not note.of_two and (note.tokens or note.mask is not None):
                return None if note.mask is None else note.mask.detach().bool()
        return None

    def _around(self, path: str) -> Iterator[Note]:
        while path:
            if path in self._notes:
                yield self._notes[path]
            path = path.rpartition(".")[0]
        if "" in self._notes:
            yield self._notes[""]

    def _starts(self, path: str, module: nn.Module) -> Any:  # noqa: ANN401
        names = parameters_of(module)
        note = self._notes[path] = Note(of_two=any(name.startswith("decoder_") for name in names))
        attends = looks_like_attention(module)
        take = untraced(lambda args, kwargs: _take(note, names, attends, args, kwargs))

        def start(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not torch.compiler.is_compiling():
                take(args, kwargs)

        run_plainly(start)
        return start


def _take(note: Note, names: list[str], attends: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = {**dict.fromkeys(names), **dict(zip(names, args, strict=False)), **kwargs}
    tokens = next((x for x in (given.get("input_ids"), *args[:1]) if _are_numbers(x)), None)
    if tokens is not None:
        note.tokens.append(tokens)
    note.mask = _marks(given)
    note.itself = from_itself(given) if attends else None


def untraced(function: Callable[..., None]) -> Callable[..., None]:
    """The function, which torch.compile leaves alone with all that it calls.

    >>> untraced(print)("plainly")
    plainly
    """
    if "torch._dynamo" not in sys.modules:
        return function
    plainly: Callable[..., Callable[..., None]] = torch.compiler.disable
    return plainly(function)


def around_attention(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that look like attention, and every module around them; the model itself in any case.

    >>> [path for path, _ in around_attention(torch.nn.TransformerEncoderLayer(8, nhead=2))]
    ['', 'self_attn']
    """
    wanted = {""}
    for path, module in model.named_modules():
        if looks_like_attention(module):
            parts = path.split(".")
            wanted |= {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    for path, module in model.named_modules():
        if path in wanted and not isinstance(module, torch.jit.ScriptModule):
            yield path, module


def parameters_of(module: nn.Module) -> list[str]:
    """The names of what a module takes, in order.

    >>> parameters_of(torch.nn.Linear(1, 1))
    ['input']
    """
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _marks(given: dict[str, Any]) -> Tensor | None:
    """The padding mask among a module's arguments: Hugging Face's, or that of headwise's layers."""
    mask = given.get("attention_mask")
    if _are_numbers(mask, marks=True):
        return mask
    mask = given.get("mask")
    masks = mask.masks if isinstance(mask, All) else (mask,)
    return next((one.keep for one in masks if isinstance(one, Padding)), None)


def _are_numbers(x: object, marks: bool = False) -> TypeGuard[Tensor]:
    if not isinstance(x, Tensor) or x.dim() != 2 or x.is_floating_point() or wrapped([x]):
        return False
    return marks or x.dtype != torch.bool
