"""Which module is running: hooks that keep a stack of paths, and which modules look like attention."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
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
    name = type(module).__name__.lower()
    alike = "attention" in name or "attn" in name
    if not alike:
        names = {own for own, _ in module.named_children()} | {
            own for own, _ in module.named_parameters(recurse=False)
        }
        alike = any(wanted <= names for wanted in _PROJECTIONS)
    return alike and next(module.parameters(), None) is not None  # last, as it takes longest


class Running:
    """The stack of running modules of one model, by path, while its hooks are on.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    >>> running = Running(model)
    >>> with running.hooks():
    ...     output = model(torch.zeros(1, 2))
    >>> list(running.ran), running.stack
    (['', '0'], [])
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(model.named_modules())
        self.attention = {path for path, module in self.modules.items() if looks_like_attention(module)}
        self.stack: list[str] = []
        self.ran: dict[str, None] = {}
        self.passes = 0
        self.traced = Traced()
        self.after_each: Callable[[str], object] = lambda path: None
        self.thread = threading.get_ident()
        self.elsewhere: dict[str, None] = {}
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
                if path in self.scripts or (inside_scripts and path.startswith(inside_scripts)):
                    continue
                handles.append(module.register_forward_pre_hook(self._starts(path)))
                handles.append(module.register_forward_hook(self._ends(path)))
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.stack.clear()

    def _starts(self, path: str) -> Any:  # noqa: ANN401
        stack, ran, elsewhere, thread, traced = self.stack, self.ran, self.elsewhere, self.thread, self.traced

        def start(module: nn.Module, args: object) -> None:
            if torch.compiler.is_compiling():
                traced.ran = True
                traced.path = path  # only written: what a trace reads becomes a reason to compile again
            elif threading.get_ident() != thread:
                elsewhere[path] = None
            else:
                self.passes += not stack
                stack.append(path)
                ran[path] = None

        run_plainly(start)
        return start

    def _ends(self, path: str) -> Any:  # noqa: ANN401
        stack, thread, traced = self.stack, self.thread, self.traced
        outer = path.rpartition(".")[0]

        def end(module: nn.Module, args: object, output: object) -> None:
            if torch.compiler.is_compiling():
                traced.path = outer
            elif threading.get_ident() == thread and path in stack:
                while stack.pop() != path:  # a module that raised may have left others behind
                    pass
                self.after_each(path)

        run_plainly(end)
        return end


class Traced:
    """Which module torch.compile is tracing, and whether anything of the model ran as compiled code."""

    path = ""
    ran = False


def run_plainly(function: Any) -> None:  # noqa: ANN401
    """Keep torch.compile from compiling a function on its own; it may still be traced inside another.

    >>> run_plainly(looks_like_attention)
    """
    if "torch._dynamo" in sys.modules:
        from torch._dynamo.eval_frame import skip_code

        skip_code(function.__code__)
