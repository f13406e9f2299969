"""Hugging Face models: how each kind is called, with masks, positions and caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headwise.check.claims import Claims
from headwise.check.comparing import worst
from headwise.check.inputs import Inputs, Tokens
from headwise.check.rounding import other_share
from headwise.check.subjects.outputs import in_words, picked
from headwise.check.subjects.signature import parameters
from headwise.check.subjects.subject import LENGTH, RECURRENT, Subject, device_and_dtype
from headwise.core.errors import HeadwiseError

_SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id",
            "cls_token_id", "mask_token_id", "image_token_id", "audio_token_id", "video_token_id")  # fmt: skip


def is_config(thing: object) -> bool:
    """Whether it is a Hugging Face configuration.

    >>> is_config(nn.Linear(2, 2))
    False
    """
    return _is_a(type(thing), "PreTrainedConfig", "PretrainedConfig")


def is_hugging_face(thing: object) -> bool:
    """Whether it is a Hugging Face model.

    >>> is_hugging_face(nn.Linear(2, 2))
    False
    """
    return _is_a(type(thing), "PreTrainedModel")


def _is_a(kind: type, *names: str) -> bool:
    return any(each.__name__ in names and each.__module__.startswith("transformers") for each in kind.__mro__)


def parts_of(model: Any, claims: Claims, make: Callable[[], Any] | None, *, who: str) -> dict[str, Subject]:
    """The subjects in a model: itself, or its encoder, its decoder, and what the one gives the other.

    Raises HeadwiseError if it takes no tokens.
    """
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    if not takes(model, "input_ids"):
        raise _takes_no_tokens(who, model)
    inputs = _tokens(model, config)
    if getattr(model.config, "is_encoder_decoder", False):
        return _both(model, inputs, claims, who)
    caused = causal_by_name(model)
    subject = Subject(type(model).__name__, model, inputs, ask, layers=_layers(config), make=make)
    subject.assumed += [f"takes tokens below {inputs.vocabulary}", _reads(model, inputs, who)]
    subject.takes_keep = takes(model, "attention_mask")
    offset = position_offset(model, inputs)
    if subject.takes_keep:
        subject.assumed.append("keep is passed as attention_mask, 1 shows")
    if offset is not None:
        subject.takes_positions = True
        after = f", from {offset} on" if offset else ""
        subject.assumed.append(
            f"positions are passed as position_ids{after}, counted from the mask where there is one"
        )
        subject.call = lambda thing, x, keep, positions: ask(thing, x, keep, positions, offset=offset)
    else:
        subject.questions["shift"] = ("it takes no position_ids", "Pass call=lambda model, x, positions: ...")
    subject.lives = ("cast", "save", "copy")  # from_pretrained fills what the meta device leaves empty
    if caused and not claims.bidirectional:
        subject.claimed = replace(claims, causal=True)
        subject.assumed.append(f"it must be causal, as {type(model).__name__} says")
    if caused:
        _add_cache(subject, config, offset)
    subject.caches = caused
    _add_ways(subject)
    return {"": subject}


def ask(
    model: Any,
    x: Tensor,
    keep: Tensor | None,
    positions: Tensor | None,
    *,
    offset: int | None = None,
    **more: Any,
) -> Tensor:
    """The logits or the last hidden states."""
    device = device_and_dtype(model)[0]
    named: dict[str, Any] = {"use_cache": False} if takes(model, "use_cache") else {}
    if keep is not None:
        named["attention_mask"] = keep.long().to(device)
        if positions is None and offset is not None:
            positions = (keep.long().cumsum(-1) - 1).clamp(min=0)
    if positions is not None and offset is not None:
        named["position_ids"] = (positions + offset).expand(len(x), -1).to(device)
    return read(model(input_ids=x.to(device), **named, **more), x)


def read(output: Any, x: Tensor) -> Tensor:
    """The tensor ``[batch length ...]`` of a model's output."""
    found = picked(output, *x.shape[:2])
    if found is None:
        raise ValueError(f"it gives {in_words(output)}")
    return found[0](output).cpu()


def takes(model: Any, name: str) -> bool:
    """Whether the model's forward takes an argument of that name."""
    return name in parameters(model)


def causal_by_name(model: Any) -> bool:
    """Whether a model's class says that it predicts the next token, and its configuration does not deny it."""
    named = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
    return named and bool(getattr(model.config, "is_decoder", True))


@torch.no_grad()
def position_offset(model: Any, inputs: Inputs) -> int | None:
    """The number that positions start from, where position_ids of that kind are what the model counts itself."""
    if not takes(model, "position_ids"):
        return None
    x = inputs.make(2, LENGTH, seed=0)
    plain = ask(model, x, None, None)
    pad = getattr(model.config, "pad_token_id", None)
    for offset in (0, *((pad + 1,) if isinstance(pad, int) else ())):
        try:
            change = worst(plain, ask(model, x, None, torch.arange(LENGTH), offset=offset))
        except Exception:  # noqa: S112 - positions of another shape
            continue
        if change.share <= other_share(inputs, x, plain, 4):
            return offset
    return None


def _tokens(model: Any, config: Any) -> Tokens:
    table = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    vocabulary = getattr(table, "num_embeddings", None) or config.vocab_size
    found = [getattr(holder, name, None) for holder in (config, model.config) for name in _SPECIAL]
    special = {tuple(one) if isinstance(one, list) else one for one in found}
    numbers = {each for one in special for each in (one if isinstance(one, tuple) else (one,))}
    avoid = tuple(sorted(n for n in numbers if isinstance(n, int) and 0 <= n < vocabulary))
    return Tokens(vocabulary, avoid, device_and_dtype(model)[1])


def _reads(model: Any, inputs: Tokens, who: str) -> str:
    x = inputs.make(2, LENGTH, seed=0)
    try:
        with torch.no_grad():
            ask(model, x, None, None)
            output = model(input_ids=x.to(device_and_dtype(model)[0]))
    except Exception as error:
        raise _cannot_call(who, model, error) from error
    found = picked(output, *x.shape)
    words = found[1].split(" is read")[0] if found else "its tensor"
    return f"called as model(input_ids=x{', use_cache=False' * takes(model, 'use_cache')}).{words}"


def _layers(config: Any) -> int:
    for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    return 2


def _window(config: Any) -> int | None:
    value = getattr(config, "sliding_window", None)
    return value if isinstance(value, int) and 0 < value <= 64 else None


def _add_cache(subject: Subject, config: Any, offset: int | None) -> None:
    model = subject.thing
    if not takes(model, "use_cache") or not _gives_cache(subject):
        why = "the model gives no cache"
        subject.questions["cache"] = (why, "Pass start=lambda model: step, where step(chunk) remembers")
        return
    subject.start = lambda thing: stepping(thing, offset)
    subject.steps_keep = subject.takes_keep and not subject.has(
        RECURRENT
    )  # whose mask is for the chunk alone
    subject.window = _window(config)


@torch.no_grad()
def _gives_cache(subject: Subject) -> bool:
    x = subject.inputs.make(2, LENGTH, seed=0).to(device_and_dtype(subject.thing)[0])
    try:
        output = subject.thing(input_ids=x, use_cache=True)
    except Exception:
        return False
    return (
        _cache_name(subject.thing) is not None
        and getattr(output, _cache_name(subject.thing) or "", None) is not None
    )


def _cache_name(model: Any) -> str | None:
    """The argument and the field that carry the cache: other versions call it otherwise."""
    return next((name for name in ("cache", "past_key_values") if takes(model, name)), None)


def stepping(model: Any, offset: int | None, **more: Any) -> Callable[..., Tensor]:
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


def _add_ways(subject: Subject) -> None:
    """The same model with its other implementation of attention, and with weights asked."""
    model = subject.thing
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        subject.ways["eager attention"] = lambda thing, x: _eager(thing, subject, x)
    if subject.takes_keep:
        kept = lambda x: torch.ones(x.shape, dtype=torch.bool)  # noqa: E731
        subject.ways["with a mask that keeps all"] = lambda thing, x: subject.call(thing, x, kept(x), None)


def _eager(model: Any, subject: Subject, x: Tensor) -> Tensor:
    model.set_attn_implementation("eager")
    try:
        return subject.call(model, x, None, None)
    finally:
        model.set_attn_implementation("sdpa")


def _both(model: Any, inputs: Tokens, claims: Claims, who: str) -> dict[str, Subject]:
    """Encoder, decoder, and what the decoder reads of the encoder."""
    device = device_and_dtype(model)[0]
    source = inputs.make(1, 7, seed=5).to(device)
    name, layers = type(model).__name__, _layers(model.config)

    def encode(thing: Any, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
        mask = {} if keep is None else {"attention_mask": keep.long().to(device)}
        return read(thing.get_encoder()(input_ids=x.to(device), **mask), x)

    def decode(thing: Any, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
        mask = {} if keep is None else {"decoder_attention_mask": keep.long().to(device)}
        given = {"input_ids": source.expand(len(x), -1), "decoder_input_ids": x.to(device)}
        return read(thing(**given, use_cache=False, **mask), x)

    def through(thing: Any, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
        """The last output of the decoder for this source, at every place of it."""
        mask = {} if keep is None else {"attention_mask": keep.long().to(device)}
        given = {"input_ids": x.to(device), "decoder_input_ids": source[:, :3].expand(len(x), -1)}
        output = thing(**given, use_cache=False, **mask)
        return read(output, source[:, :3].expand(len(x), -1))[:, -1:].expand(-1, x.shape[1], -1)

    encoder = Subject(name, model, inputs, encode, layers=layers, takes_keep=True)
    encoder.assumed = ["called as model.get_encoder()(input_ids=x), keep as attention_mask, 1 shows"]
    encoder.caches = False
    encoder.claimed = replace(claims, causal=False, window=None)
    decoder = Subject(
        name, model, inputs, decode, layers=layers, takes_keep=takes(model, "decoder_attention_mask")
    )
    decoder.assumed = [
        "called as model(input_ids=7 fixed tokens, decoder_input_ids=x), keep as decoder_attention_mask"
    ]
    decoder.claimed = replace(claims, causal=True)
    decoder.assumed.append("it must be causal, as decoders are")
    decoder.start = lambda thing: stepping(thing, None, input_ids=source.expand(2, -1))
    memory = Subject(name, model, inputs, through, layers=layers, takes_keep=True)
    memory.assumed = ["the last of 3 decoder outputs, for the source x of any length"]
    memory.claimed, memory.groups = Claims(), ("batch", "padding")
    parts = {"encoder": encoder, "decoder": decoder, "memory": memory}
    x = inputs.make(2, LENGTH, seed=0)
    for part in parts.values():
        part.questions["shift"] = ("it takes no position_ids", "Pass call=lambda model, x, positions: ...")
        try:
            with torch.no_grad():
                part.f(x)
        except Exception as error:
            raise _cannot_call(who, model, error) from error
    return parts


def _takes_no_tokens(who: str, model: Any) -> HeadwiseError:
    return HeadwiseError(
        who=who,
        what="the model",
        expected="one that takes input_ids",
        got=f"{type(model).__name__}, which takes {', '.join(list(parameters(model))[:3])}",
        why="Only sequences of tokens are made here",
        do="Pass call=lambda model, x: ... and inputs=",
    )


def _cannot_call(who: str, model: Any, error: Exception) -> HeadwiseError:
    reason = " ".join(str(error).split()).rstrip(".")[:200] or "without a message"
    return HeadwiseError(
        who=who,
        what="the model",
        expected="callable with input_ids alone",
        got=f"{type(error).__name__}: {reason}",
        why=f"{type(model).__name__} was called with 2 rows of {LENGTH} tokens",
        do="Pass call=lambda model, x: ... and inputs=Tokens(number)",
    )
