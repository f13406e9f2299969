"""Finds out what else a layer or model takes: masks, positions, a causal flag, weights."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from headwise.check.comparing import worst
from headwise.check.inputs import Inputs
from headwise.check.rounding import other_share
from headwise.check.subjects.convention import Convention
from headwise.check.subjects.masks import Form, Probe, probe
from headwise.check.subjects.signature import Thing, mask_names, parameters, position_names
from headwise.check.subjects.subject import LENGTH, Subject, Way
from headwise.core.masks import Causal

_WEIGHTS = re.compile(r"(need|return|output|get|with)_?(attn|attention)?s?_?(weights?|attentions?|attn|map)")
_TRUE: dict[str, Literal["visible", "hidden"]] = {"visible": "visible", "hidden": "hidden"}
_DO = "Pass call=, a function of the module, x and keep, which is True for a real token"


def described_by(subject: Subject, convention: Convention) -> Subject:
    """The subject with everything that could be found out about its further arguments.

    >>> from headwise.check.inputs import Vectors
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> call = Convention(times=3, fixed={"need_weights": False})
    >>> subject = described_by(Subject("mha", attention, Vectors(8), call), call)
    >>> subject.assumed[0]
    'keep is passed as key_padding_mask, inverted: True hides'
    """
    forms = _mask_forms(subject, convention)
    positions = _positions(subject, convention)
    keep = next(((name, form) for name, form in forms.items() if form.axes != "[query key]"), None)
    pair = next(((name, form) for name, form in forms.items() if form.pairs or form.axes == "object"), None)
    if keep is not None:
        subject.takes_keep = True
        subject.true_means = _TRUE.get(keep[1].entries)
        subject.assumed.append(f"keep is passed as {keep[0]}{_aside(keep[1])}")
    elif "padding" not in subject.questions:
        subject.questions["padding"] = ("it takes no mask of padding that is known by name", _DO)
    if positions is not None:
        subject.takes_positions = True
        subject.assumed.append(f"positions are passed as {positions[0]}")
    subject.call = partial(_call, convention, keep, positions)
    subject.ways.update(_ways(subject, convention, keep))
    subject.masked.update(_causal_ways(subject, convention, pair))
    return subject


def _call(
    convention: Convention,
    as_mask: tuple[str, Form] | None,
    as_positions: tuple[str, bool] | None,
    thing: Thing,
    x: Tensor,
    keep: Tensor | None,
    positions: Tensor | None,
) -> Tensor:
    named: dict[str, Any] = {}
    if keep is not None and as_mask is not None:
        named[as_mask[0]] = as_mask[1].write(keep, x.shape[1])
        if positions is None and as_positions is not None and as_positions[1]:
            positions = (keep.cumsum(-1) - 1).clamp(min=0)
    if positions is not None and as_positions is not None:
        rows = positions.dim() == 1 and as_positions[1]
        named[as_positions[0]] = positions.expand(len(x), -1) if rows else positions
    return convention(thing, x, **named)


def _mask_forms(subject: Subject, convention: Convention) -> dict[str, Form]:
    """The mask arguments whose meaning is known; what is not goes to the subject's questions."""
    thing, found, idle = subject.thing, {}, []
    for name in mask_names(thing):
        outcome: Probe = probe(
            partial(convention, thing),
            lambda x, mask, name=name: convention(thing, x, **{name: mask}),  # type: ignore[misc]
            subject.inputs,
            objects="Mask" in str(parameters(thing)[name].annotation),
        )
        if outcome.form is not None:
            found[name] = outcome.form
        elif outcome.taken and not outcome.changes:
            idle.append(name)
        elif "padding" not in subject.questions:
            why = "is not known by what it does" if outcome.taken else "was taken in no form that was tried"
            subject.questions["padding"] = (f"what True means in {name} {why}", _DO)
    subject.idle = idle
    if found:
        subject.questions.pop("padding", None)
    return found


def _aside(form: Form) -> str:
    if form.axes == "object":
        return "=Padding(keep)"
    if form == Form("[batch key]", "visible"):
        return ": True shows"
    if form == Form("[batch key]", "hidden"):
        return ", inverted: True hides"
    return f", as {form.words}"


def _positions(subject: Subject, convention: Convention) -> tuple[str, bool] | None:
    """The argument for positions, and whether it takes a row of them for each row of the batch."""
    x = subject.inputs.make(2, LENGTH, seed=0)
    for name in position_names(subject.thing):
        plain = convention(subject.thing, x)
        for rows in (True, False):
            positions = torch.arange(LENGTH)
            given = {name: positions.expand(2, -1) if rows else positions}
            try:
                with torch.no_grad():
                    change = worst(plain, convention(subject.thing, x, **given))
            except Exception:
                continue
            if change.share <= other_share(subject.inputs, x, plain, subject.depth):
                return name, rows
        why = f"0, 1, 2, ... as {name} is not what it takes by itself"
        subject.questions["shift"] = (why, "Pass call=, a function of the module, x and positions")
    return None


def _ways(subject: Subject, convention: Convention, keep: tuple[str, Form] | None) -> dict[str, Way]:
    ways: dict[str, Way] = {}
    for name in parameters(subject.thing):
        if _WEIGHTS.fullmatch(name):
            asking = replace(convention, pick=None, fixed={**convention.fixed, name: True})
            ways["with weights asked"] = asking.__call__
    if callable(getattr(subject.thing, "with_weights", None)):
        unsettled = replace(convention, pick=None)
        ways["with_weights"] = lambda thing, x: unsettled(thing.with_weights, x)
    if keep is not None:
        name, form = keep

        def everything(x: Tensor) -> Thing:
            return form.write(torch.ones(x.shape[:2], dtype=torch.bool), x.shape[1])

        ways["with a mask that keeps all"] = lambda thing, x: convention(thing, x, **{name: everything(x)})
    return ways


def _causal_ways(subject: Subject, convention: Convention, pair: tuple[str, Form] | None) -> dict[str, Way]:
    """The ways to ask for a causal answer by an argument."""
    ways: dict[str, Way] = {}
    known = parameters(subject.thing)

    def given(x: Tensor) -> dict[str, Any]:
        assert pair is not None
        name, form = pair
        if form.axes == "object":
            return {name: Causal()}
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return {name: form.write(seen.expand(len(x), *seen.shape), x.shape[1])}

    if pair is not None:
        ways[f"with a causal {pair[0]}"] = lambda thing, x: convention(thing, x, **given(x))
    flag = next((name for name in ("is_causal", "causal") if name in known), None)
    if flag is not None and known[flag].default in (False, None):
        alone: Way = lambda thing, x: convention(thing, x, **{flag: True})  # noqa: E731
        both: Way = lambda thing, x: convention(thing, x, **{flag: True}, **given(x))  # noqa: E731
        if pair is not None and _takes(subject.thing, both, subject.inputs):  # the flag may be but a hint
            ways[f"with {flag}=True and a causal {pair[0]}"] = both
        elif _takes(subject.thing, alone, subject.inputs):
            ways[f"with {flag}=True"] = alone
    return ways


def _takes(thing: Thing, way: Way, inputs: Inputs) -> bool:
    try:
        with torch.no_grad():
            way(thing, inputs.make(2, LENGTH, seed=0))
    except Exception:
        return False
    return True
