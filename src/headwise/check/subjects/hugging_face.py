"""Hugging Face models: how each kind is called, with masks, positions and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headwise.check.comparing import worst
from headwise.check.inputs import Inputs, Tokens
from headwise.check.rounding import other_share
from headwise.check.subjects.outputs import in_words, picked
from headwise.check.subjects.signature import Thing, parameters
from headwise.check.subjects.subject import LENGTH, Subject, device_and_dtype
from headwise.core.errors import HeadwiseError

_SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id",
            "cls_token_id", "mask_token_id", "image_token_id", "audio_token_id")  # fmt: skip


def is_config(thing: object) -> bool:
    """Whether it is a Hugging Face configuration.

    >>> is_config(torch.nn.Linear(2, 2))
    False
    """
    return _is_a(type(thing), "PreTrainedConfig", "PretrainedConfig")


def is_hugging_face(thing: object) -> bool:
    """Whether it is a Hugging Face model.

    >>> is_hugging_face(torch.nn.Linear(2, 2))
    False
    """
    return _is_a(type(thing), "PreTrainedModel")


def _is_a(kind: type, *names: str) -> bool:
    return any(each.__name__ in names and each.__module__.startswith("transformers") for each in kind.__mro__)


def answer(
    model: Thing,
    x: Tensor,
    keep: Tensor | None,
    positions: Tensor | None,
    *,
    offset: int | None = None,
    **more: Thing,
) -> Tensor:
    """The logits or the last hidden states."""
    device = device_and_dtype(model)[0]
    named: dict[str, Any] = {"use_cache": False} if takes(model, "use_cache") and not more else {}
    if keep is not None:
        named["attention_mask"] = keep.long().to(device)
        if positions is None and offset is not None:
            positions = (keep.long().cumsum(-1) - 1).clamp(min=0)
    if positions is not None and offset is not None:
        named["position_ids"] = (positions + offset).expand(len(x), -1).to(device)
    return read(model(input_ids=x.to(device), **named, **more), x)


def read(output: Thing, x: Tensor) -> Tensor:
    """The tensor ``[batch length ...]`` of a model's output."""
    found = picked(output, *x.shape[:2])
    if found is None:
        raise ValueError(f"it gives {in_words(output)}")
    return found[0](output).cpu()


def takes(model: Thing, name: str) -> bool:
    """Whether the model's forward takes an argument of that name."""
    return name in parameters(model)


def causal_by_name(model: Thing) -> bool:
    """Whether a model's class says that it predicts the next token, and its configuration agrees."""
    named = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
    return named and all(bool(getattr(model.config, name, True)) for name in ("is_decoder", "causal"))


@torch.no_grad()
def position_offset(model: Thing, inputs: Inputs) -> int | None:
    """The number positions start from, if position_ids are then what the model counts itself."""
    if not takes(model, "position_ids"):
        return None
    x = inputs.make(2, LENGTH, seed=0)
    plain = answer(model, x, None, None)
    pad: int | None = getattr(model.config, "pad_token_id", None)
    for offset in (0, *((pad + 1,) if isinstance(pad, int) else ())):
        try:
            change = worst(plain, answer(model, x, None, torch.arange(LENGTH), offset=offset))
        except Exception:
            continue
        if change.share <= other_share(inputs, x, plain, 4):
            return int(offset)
    return None


def tokens_of(model: Thing, config: Thing) -> Tokens:
    """Tokens without those that have a meaning of their own."""
    table = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    vocabulary = getattr(table, "num_embeddings", None) or config.vocab_size
    found = [getattr(holder, name, None) for holder in (config, model.config) for name in _SPECIAL]
    special = {tuple(one) if isinstance(one, list) else one for one in found}
    numbers = {each for one in special for each in (one if isinstance(one, tuple) else (one,))}
    avoid = tuple(sorted(n for n in numbers if isinstance(n, int) and 0 <= n < vocabulary))
    return Tokens(vocabulary, avoid, device_and_dtype(model)[1])


def layers_of(config: Thing) -> int:
    """The number of layers."""
    for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    return 2


def window_of(config: Thing) -> int | None:
    """The number of keys its windows hold, if they are short enough to try."""
    value = getattr(config, "sliding_window", None)
    return value if isinstance(value, int) and 0 < value <= 64 else None


@torch.no_grad()
def gives_cache(subject: Subject) -> bool:
    """Whether the model gives a cache when it is asked to use one."""
    x = subject.inputs.make(2, LENGTH, seed=0).to(device_and_dtype(subject.thing)[0])
    try:
        output = subject.thing(input_ids=x, use_cache=True)
    except Exception:
        return False
    name = _cache_name(subject.thing)
    return name is not None and getattr(output, name, None) is not None


def _cache_name(model: Thing) -> str | None:
    """The argument and the field that carry the cache: other versions call it otherwise."""
    return next((name for name in ("cache", "past_key_values") if takes(model, name)), None)


def stepping(model: Thing, offset: int | None, **more: Thing) -> Callable[..., Tensor]:
    """``step(chunk, keep=None)`` with a cache of its own: without keep the model counts positions itself."""
    device = device_and_dtype(model)[0]
    past: Any = None
    kept: Tensor | None = None
    ids, carried = "decoder_input_ids" if more else "input_ids", _cache_name(model) or "cache"

    def step(chunk: Tensor, keep: Tensor | None = None) -> Tensor:
        nonlocal past, kept
        named: dict[str, Any] = {}
        if keep is not None:
            kept = keep if kept is None else torch.cat([kept, keep], dim=1)
            named["attention_mask"] = kept.long().to(device)
            if offset is not None:
                counted = (kept.long().cumsum(-1) - 1).clamp(min=0)[:, -chunk.shape[1] :]
                named["position_ids"] = (counted + offset).to(device)
        output = model(**{ids: chunk.to(device), carried: past}, use_cache=True, **named, **more)
        past = getattr(output, carried)
        return read(output, chunk)

    return step


def cannot_call(who: str, model: Thing, error: Exception) -> HeadwiseError:
    """The refusal of a model that raises on plain tokens."""
    reason = " ".join(str(error).split()).rstrip(".")[:200] or "without a message"
    return HeadwiseError(
        who=who,
        what="the model",
        expected="callable with input_ids alone",
        got=f"{type(error).__name__}: {reason}",
        why=f"{type(model).__name__} was called with 2 rows of {LENGTH} tokens",
        do="Pass call=lambda model, x: ... and inputs=Tokens(number)",
    )
