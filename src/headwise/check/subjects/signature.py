"""What a function or a module's forward takes, by name."""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Any

from torch import nn

Thing = Any
"""Whatever is under test."""

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_PLACED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


_BUILTINS = {  # Python cannot tell what these take
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"),
}


def parameters(thing: Thing) -> dict[str, Parameter]:
    """The named arguments of a function or of a module's forward, in order; none where Python cannot tell.

    >>> list(parameters(nn.Linear(2, 2)))
    ['input']
    """
    function = thing.forward if isinstance(thing, nn.Module) else thing
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        names = _BUILTINS.get(getattr(thing, "__name__", ""), ())
        defaults = [Parameter.empty] * 3 + [None] * len(names)
        return {
            name: Parameter(name, _NAMED[0], default=default)
            for name, default in zip(names, defaults, strict=False)
        }
    return {name: each for name, each in found.items() if each.kind in (*_NAMED, *_PLACED)}


def required(thing: Thing) -> list[str]:
    """The arguments that have no default.

    >>> required(lambda x, mask, positions=None: x)
    ['x', 'mask']
    """
    return [name for name, each in parameters(thing).items() if each.default is Parameter.empty]


def takes_query_key_value(thing: Thing) -> bool:
    """Whether the first three arguments are a query, keys and values by name.

    >>> takes_query_key_value(lambda q, k, v, mask=None: v), takes_query_key_value(lambda x: x)
    (True, False)
    """
    first = [name.lower() for name in parameters(thing)][:3]
    known = (("q", "query", "queries"), ("k", "key", "keys"), ("v", "value", "values"))
    return len(first) == 3 and all(name in names for name, names in zip(first, known, strict=True))


def mask_names(thing: Thing) -> list[str]:
    """The arguments that look like a mask, those about padding first.

    >>> mask_names(lambda x, attn_mask=None, key_padding_mask=None: x)
    ['key_padding_mask', 'attn_mask']
    """
    found = [name for name in parameters(thing) if _about_masks(name)]
    return sorted(found, key=lambda name: not ("pad" in name or name in ("keep", "valid", "attention_mask")))


def position_names(thing: Thing) -> list[str]:
    """The arguments that look like positions.

    >>> position_names(lambda x, position_ids=None: x)
    ['position_ids']
    """
    known = ("positions", "position_ids", "position", "pos_ids", "pos", "input_pos", "token_positions")
    return [name for name in parameters(thing) if name in known]


def _about_masks(name: str) -> bool:
    other = ("decoder", "cross", "head", "memory", "encoder", "causal")
    if any(word in name for word in other):
        return False
    return "mask" in name or name in ("keep", "valid", "padding", "visible")
