"""torch's multi_head_attention_forward, run so that the attention inside it is seen."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

MULTI_HEAD: Any = functional.multi_head_attention_forward

# the number of heads of the multi_head_attention_forward that is running; all watchers read it
running_heads: ContextVar[int | None] = ContextVar("running_heads", default=None)


@contextmanager
def heads_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    """A block in which ``running_heads`` is that of a call with these arguments.

    >>> with heads_of_call((), {"num_heads": 4}):
    ...     running_heads.get()
    4
    """
    token = running_heads.set(int(args[4]) if len(args) > 4 else int(kwargs["num_heads"]))
    try:
        yield
    finally:
        running_heads.reset(token)


def body() -> Callable[..., tuple[Tensor, Tensor | None]]:
    """A copy of torch's function that never hands itself over to a mode, so what it calls can be seen.

    >>> import inspect
    >>> inspect.signature(body()) == inspect.signature(torch.nn.functional.multi_head_attention_forward)
    True
    """
    names = {**vars(functional), "has_torch_function": lambda *_: False}
    copy = types.FunctionType(
        MULTI_HEAD.__code__, names, MULTI_HEAD.__name__, MULTI_HEAD.__defaults__, MULTI_HEAD.__closure__
    )
    copy.__kwdefaults__ = MULTI_HEAD.__kwdefaults__
    copy.__annotations__ = MULTI_HEAD.__annotations__
    return copy


def fast_path_was_open(module: nn.Module | None, args: tuple[Any, ...]) -> bool:
    """Whether torch would have run this layer as one native call, had nobody watched.

    >>> layer, x = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.zeros(1, 3, 8)
    >>> fast_path_was_open(layer, (x, x, x)), fast_path_was_open(layer.requires_grad_(False), (x, x, x))
    (False, True)
    """
    if not isinstance(module, nn.MultiheadAttention) or not torch.backends.mha.get_fastpath_enabled():
        return False
    query, key, value = args[:3]
    wants_gradient = torch.is_grad_enabled() and any(
        x.requires_grad for x in (query, key, value, *module.parameters())
    )
    fits = module.batch_first and module.num_heads % 2 == 0 and module.in_proj_bias is not None
    plain = module.bias_k is None and not module.add_zero_attn and module.in_proj_weight is not None
    itself = query is key and key is value
    return bool(
        fits
        and plain
        and itself
        and not module.training
        and not wants_gradient
        and not torch.is_autocast_enabled()
    )
