"""Layers that take vectors and models that take tokens, as long as one argument, or one thrice, will do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn

from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.subjects.arguments import described_by
from headwise.check.subjects.convention import Convention, NotThisWayError
from headwise.check.subjects.signature import Thing, parameters, required, takes_query_key_value
from headwise.check.subjects.subject import Subject, device_and_dtype
from headwise.check.subjects.widths import tokens, widths
from headwise.core.errors import HeadwiseError

_TARGETS = ("targets", "labels", "target")


def of_vectors(thing: Thing, name: str, inputs: Inputs | None, *, who: str) -> Subject:
    """A layer from ``[batch length width]`` to ``[batch length ...]``.

    >>> of_vectors(nn.MultiheadAttention(8, 2, batch_first=True), "mha", None, who="layer").assumed[:2]
    ['takes vectors of width 8 (embed_dim)', 'called as module(x, x, x, need_weights=False)']
    """
    refused = "nothing"
    for candidate, where in _candidates(thing, inputs):
        try:
            convention, words = _convention(thing).settled(thing, candidate.make(2, 6, seed=0))
        except NotThisWayError as error:
            refused = str(error) if refused == "nothing" else refused
            continue
        width = (
            f"takes vectors of width {candidate.width}{where}"
            if isinstance(candidate, Vectors)
            else "takes inputs="
        )
        called = f"called as {convention.words('module' if isinstance(thing, nn.Module) else 'function')}"
        order = ["sequences come as [length batch width], since batch_first is False"]
        assumed = [width, called, *(order if convention.sequence_first else []), *words]
        return described_by(Subject(name, thing, candidate, convention.plain, assumed), convention)
    if refused == "nothing":
        raise _no_width(who, name)
    raise _cannot_call(thing, who, name, refused)


def of_tokens(thing: Thing, name: str, inputs: Inputs | None, *, who: str) -> Subject:
    """A model from tokens ``[batch length]`` to ``[batch length ...]``.

    >>> model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    >>> of_tokens(model, "tiny", None, who="model").assumed
    ['takes tokens below 9 (the table at 0)', 'called as model(x)']
    """
    found = (inputs, "inputs=") if inputs is not None else tokens(thing)
    if found is None:
        raise _no_tokens(who, name)
    chosen, where = found
    x, refused = chosen.make(2, 6, seed=0), ""
    echoes = [None, *(name for name in _TARGETS if name in parameters(thing))]
    for echoed in echoes:
        try:
            convention, words = replace(_convention(thing), echoed=echoed).settled(thing, x)
        except NotThisWayError as error:
            refused = refused or str(error)
            continue
        taken = (
            f"takes tokens below {chosen.vocabulary} ({where})"
            if isinstance(chosen, Tokens)
            else "takes inputs="
        )
        assumed = [taken, f"called as {convention.words('model')}", *words]
        return described_by(Subject(name, thing, chosen, convention.plain, assumed), convention)
    raise _cannot_call(thing, who, name, refused)


def _candidates(thing: Thing, inputs: Inputs | None) -> Iterator[tuple[Inputs, str]]:
    if inputs is not None:
        yield inputs, " (inputs=)"
        return
    dtype = device_and_dtype(thing)[1]
    seen: set[int] = set()
    for width, where in widths(thing):
        if width not in seen and len(seen) < 4:
            seen.add(width)
            yield Vectors(width, dtype), f" ({where})"


def _convention(thing: Thing) -> Convention:
    known = parameters(thing)
    fixed: dict[str, Any] = {"need_weights": False} if "need_weights" in known else {}
    times = 3 if takes_query_key_value(thing) else 1
    fixed |= {name: None for name in required(thing)[times:] if "mask" in name}
    return Convention(times, _sequence_first(thing), fixed)


def _sequence_first(thing: Thing) -> bool:
    """Whether torch's own layers were built so; others take the batch first, unless they say otherwise."""
    if not isinstance(thing, nn.Module):
        return False
    if getattr(thing, "batch_first", None) is not None:
        return not thing.batch_first
    if type(thing).__module__.startswith("torch.nn"):
        inside = [module for module in thing.modules() if isinstance(module, nn.MultiheadAttention)]
        return bool(inside) and not inside[0].batch_first
    return False


def _no_width(who: str, name: str) -> HeadwiseError:
    return HeadwiseError(
        who=who,
        what="the layer",
        expected="one whose width can be read from an attribute or a weight",
        got=name,
        why="It is not known which vectors it takes",
        do="Pass inputs=Vectors(width), or call=lambda module, x: ... as well",
    )


def _no_tokens(who: str, name: str) -> HeadwiseError:
    return HeadwiseError(
        who=who,
        what="the model",
        expected="one whose embedding receives the tokens",
        got=name,
        why="It is not known which tokens it takes",
        do="Pass inputs=Tokens(vocabulary), or call=lambda model, x: ... as well",
    )


def _cannot_call(thing: Thing, who: str, name: str, refused: str) -> HeadwiseError:
    missing = required(thing)[3 if takes_query_key_value(thing) else 1 :]
    needs = f"{name} needs {', '.join(missing)} as well" if missing else "It is called with sequences alone"
    return HeadwiseError(
        who=who,
        what=f"the output of {name}",
        expected="a tensor [batch, length, ...] for sequences [batch, length, ...]",
        got=" ".join(refused.split()).rstrip("."),
        why=needs,
        do="Pass call=lambda module, x: ... that gives it, and inputs=Vectors(width) or Tokens(number)",
    )
