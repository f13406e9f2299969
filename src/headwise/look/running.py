"""Which module is running: hooks that keep a stack of paths, and which modules look like attention."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_PROJECTIONS = (
    {"q_proj", "k_proj", "v_proj"},
    {"query", "key", "value"},
    {"q", "k", "v"},
    {"to_q", "to_k", "to_v"},
    {"q_lin", "k_lin", "v_lin"},
    {"query_key_value"},
    {"to_qkv"},
    {"qkv"},
    {"qkv_proj"},
    {"c_attn"},
    {"in_proj_weight"},
    {"Wqkv"},
)


def looks_like_attention(module: nn.Module) -> bool:
    """Whether a module has attention in its class name, or projections to queries, keys and values.

    >>> looks_like_attention(torch.nn.MultiheadAttention(4, 1)), looks_like_attention(torch.nn.Linear(4, 4))
    (True, False)
    """
    if next(module.parameters(), None) is None:
        return False
    name = type(module).__name__.lower()
    if "attention" in name or "attn" in name:
        return True
    names = {own for own, _ in module.named_children()} | {
        own for own, _ in module.named_parameters(recurse=False)
    }
    return any(wanted <= names for wanted in _PROJECTIONS)


class Running:
    """The stack of running modules of one model, by path, while its hooks are on.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    >>> running = Running(model)
    >>> with running.hooks():
    ...     output = model(torch.zeros(1, 2))
    >>> running.ran, running.stack
    (['', '0'], [])
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(model.named_modules())
        self.stack: list[str] = []
        self.ran: list[str] = []
        self.thread = threading.get_ident()
        self.elsewhere: list[str] = []
        self.scripts = [
            path for path, module in self.modules.items() if isinstance(module, torch.jit.ScriptModule)
        ]

    @property
    def path(self) -> str:
        """The path of the innermost running module, "" for the model itself or none."""
        return self.stack[-1] if self.stack else ""

    @property
    def innermost(self) -> nn.Module | None:
        """The innermost running module, None while none runs."""
        return self.modules[self.stack[-1]] if self.stack else None

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """A block in which every module of the model says when it starts and ends."""
        handles: list[Any] = []
        inside_scripts = tuple(f"{path}." if path else "" for path in self.scripts)
        try:
            for path, module in self.modules.items():
                if inside_scripts and path not in self.scripts and path.startswith(inside_scripts):
                    continue
                handles.append(module.register_forward_pre_hook(self._starts(path)))
                handles.append(module.register_forward_hook(self._ends(path), always_call=True))
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.stack.clear()

    def _starts(self, path: str) -> Any:  # noqa: ANN401
        def start(module: nn.Module, args: object) -> None:
            if not torch.compiler.is_compiling() and threading.get_ident() != self.thread:
                self.elsewhere.append(path)
                return
            self.stack.append(path)
            self.ran.append(path)

        return start

    def _ends(self, path: str) -> Any:  # noqa: ANN401
        def end(module: nn.Module, args: object, output: object) -> None:
            if not torch.compiler.is_compiling() and threading.get_ident() != self.thread:
                return
            if path in self.stack:  # a module that raised may have left others behind
                while self.stack.pop() != path:
                    pass

        return end
