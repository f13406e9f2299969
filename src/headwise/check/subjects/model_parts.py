"""What there is to check in a Hugging Face model: itself, or its encoder, its decoder and the way between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from headwise.check.claims import Claims
from headwise.check.inputs import Tokens
from headwise.check.subjects.hugging_face import (
    answer,
    cannot_call,
    causal_by_name,
    gives_cache,
    layers_of,
    position_offset,
    read,
    stepping,
    takes,
    tokens_of,
    window_of,
)
from headwise.check.subjects.outputs import picked
from headwise.check.subjects.signature import Thing, parameters
from headwise.check.subjects.subject import LENGTH, RECURRENT, Subject, device_and_dtype
from headwise.core.errors import HeadwiseError

_LIVES = ("cast", "save", "copy")  # from_pretrained fills what the meta device leaves empty


def parts_of(
    model: Thing, claims: Claims, make: Callable[[], Thing] | None, *, who: str
) -> dict[str, Subject]:
    """The subjects in a model: itself, or its encoder, its decoder, and what the one gives the other.

    Raises HeadwiseError if it takes no tokens.
    """
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    if not takes(model, "input_ids"):
        raise _takes_no_tokens(who, model)
    inputs = tokens_of(model, config)
    if getattr(model.config, "is_encoder_decoder", False):
        return _both(model, inputs, claims, make, who)
    caused = causal_by_name(model)
    subject = Subject(type(model).__name__, model, inputs, answer, layers=layers_of(config), make=make)
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
        subject.call = lambda thing, x, keep, positions: answer(thing, x, keep, positions, offset=offset)
    else:
        subject.questions["shift"] = (
            "it takes no position_ids",
            "Pass call=, a function of the model, x and positions",
        )
    subject.lives = _LIVES
    if caused and not claims.bidirectional:
        subject.claimed = replace(claims, causal=True)
        subject.assumed.append(f"it must be causal, as {type(model).__name__} says")
    if caused:
        _add_cache(subject, config, offset)
    subject.caches = caused
    _add_ways(subject)
    return {"": subject}


def _reads(model: Thing, inputs: Tokens, who: str) -> str:
    x = inputs.make(2, LENGTH, seed=0)
    try:
        with torch.no_grad():
            answer(model, x, None, None)
            output = model(input_ids=x.to(device_and_dtype(model)[0]))
    except Exception as error:
        raise cannot_call(who, model, error) from error
    found = picked(output, *x.shape)
    words = found[1].split(" is read")[0] if found else "its tensor"
    return f"called as model(input_ids=x{', use_cache=False' * takes(model, 'use_cache')}).{words}"


def _add_cache(subject: Subject, config: Thing, offset: int | None) -> None:
    model = subject.thing
    if not takes(model, "use_cache") or not gives_cache(subject):
        why = "the model gives no cache"
        subject.questions["cache"] = (why, "Pass start=lambda model: step, where step(chunk) remembers")
        return
    subject.start = lambda thing: stepping(thing, offset)
    subject.steps_keep = subject.takes_keep and not subject.has(
        RECURRENT
    )  # whose mask is for the chunk alone
    subject.window = window_of(config)


def _add_ways(subject: Subject) -> None:
    """The same model with its other implementation of attention, and while it makes a cache."""
    model = subject.thing
    if subject.start is not None:
        subject.ways["with use_cache=True"] = lambda thing, x: answer(thing, x, None, None, use_cache=True)
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        subject.ways["eager attention"] = lambda thing, x: _eager(thing, subject, x)
    if subject.takes_keep:
        kept: Callable[[Tensor], Tensor] = lambda x: torch.ones(x.shape, dtype=torch.bool)  # noqa: E731
        subject.ways["with a mask that keeps all"] = lambda thing, x: subject.call(thing, x, kept(x), None)


def _eager(model: Thing, subject: Subject, x: Tensor) -> Tensor:
    model.set_attn_implementation("eager")
    try:
        return subject.call(model, x, None, None)
    finally:
        model.set_attn_implementation("sdpa")


def _both(
    model: Thing, inputs: Tokens, claims: Claims, make: Callable[[], Thing] | None, who: str
) -> dict[str, Subject]:
    """Encoder, decoder, and what the decoder reads of the encoder."""
    device = device_and_dtype(model)[0]
    source = inputs.make(1, 7, seed=5).to(device)
    name, layers = type(model).__name__, layers_of(model.config)

    def encode(thing: Thing, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
        mask = {} if keep is None else {"attention_mask": keep.long().to(device)}
        return read(thing.get_encoder()(input_ids=x.to(device), **mask), x)

    def decode(
        thing: Thing, x: Tensor, keep: Tensor | None, positions: Tensor | None, use_cache: bool = False
    ) -> Tensor:
        mask = {} if keep is None else {"decoder_attention_mask": keep.long().to(device)}
        given = {"input_ids": source.expand(len(x), -1), "decoder_input_ids": x.to(device)}
        return read(thing(**given, use_cache=use_cache, **mask), x)

    def through(thing: Thing, x: Tensor, keep: Tensor | None, positions: Tensor | None) -> Tensor:
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
    decoder.ways["with use_cache=True"] = lambda thing, x: decode(thing, x, None, None, use_cache=True)
    memory = Subject(name, model, inputs, through, layers=layers, takes_keep=True)
    memory.assumed = ["the last of 3 decoder outputs, for the source x of any length"]
    memory.claimed, memory.groups = Claims(), ("batch", "padding")
    parts = {"encoder": encoder, "decoder": decoder, "memory": memory}
    x = inputs.make(2, LENGTH, seed=0)
    for part in parts.values():
        part.make, part.lives = make, _LIVES
        part.questions["shift"] = (
            "it takes no position_ids",
            "Pass call=, a function of the model, x and positions",
        )
        try:
            with torch.no_grad():
                part.f(x)
        except Exception as error:
            raise cannot_call(who, model, error) from error
    return parts


def _takes_no_tokens(who: str, model: Thing) -> HeadwiseError:
    return HeadwiseError(
        who=who,
        what="the model",
        expected="one that takes input_ids",
        got=f"{type(model).__name__}, which takes {', '.join(list(parameters(model))[:3])}",
        why="Only sequences of tokens are made here",
        do="Pass call=lambda model, x: ... and inputs=",
    )
