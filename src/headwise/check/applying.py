"""Each property as it applies to a subject: how it is asked, and whether it must hold."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from headwise.check.asking import CannotBeCheckedError
from headwise.check.checked import Outcome
from headwise.check.claims import Claims
from headwise.check.properties.batch import batch
from headwise.check.properties.cache import cache
from headwise.check.properties.causality import causality
from headwise.check.properties.empty_rows import empty_rows
from headwise.check.properties.equivariance import equivariance
from headwise.check.properties.evaluation import evaluation
from headwise.check.properties.finite import finite
from headwise.check.properties.history import history
from headwise.check.properties.kv_order import kv_order
from headwise.check.properties.left_padding import left_padding
from headwise.check.properties.length import length
from headwise.check.properties.lifecycle import lifecycle
from headwise.check.properties.lone_pads import lone_pads
from headwise.check.properties.pad_content import pad_content
from headwise.check.properties.paths import paths
from headwise.check.properties.receptive_field import field_in_words, receptive_field
from headwise.check.properties.right_padding import right_padding
from headwise.check.properties.scale import scale
from headwise.check.properties.shift import shift
from headwise.check.report import Report, failed, not_checked
from headwise.check.subjects.subject import Called, Subject

_LONG = 400  # places at which a rounded frequency shows
_LENGTHS = (2, 3, 5, 12, 33)
_PLAIN = "plain"


def of_finite(s: Subject, c: Claims) -> list[Outcome]:
    return [Outcome(finite(s.f, s.inputs, lengths=s.fitting(1, 2, 33)), must=True)]


def of_evaluation(s: Subject, c: Claims) -> list[Outcome]:
    thing = Called(s.untouched, s.call) if s.untouched is not None else s.f
    return [Outcome(evaluation(thing, s.inputs, length=max(s.fitting(3, 12))), must=True)]


def of_batch(s: Subject, c: Claims) -> list[Outcome]:
    return [Outcome(batch(s.f, s.inputs, lengths=s.fitting(1, 2, 5), depth=s.depth), must=True)]


def of_history(s: Subject, c: Claims) -> list[Outcome]:
    return [Outcome(history(s.f, s.inputs, s.fresh, lengths=s.fitting(3, 12, 33)), must=True)]


def of_causality(s: Subject, c: Claims) -> list[Outcome]:
    lengths = s.fitting(*_LENGTHS)
    ways = {_PLAIN: s.f, **{name: s.way(way) for name, way in s.ways.items()}}
    report = causality(ways if c.causal and s.ways else s.f, s.inputs, lengths=lengths)
    outcomes = [_found(report, c.causal, c, "causal")]
    if outcomes[0].failed and not report.failing.startswith(tuple(f"{name}: " for name in s.ways)):
        outcomes = [replace(outcomes[0], note=seen(s, c))]
    if report.passed:
        return outcomes
    for name, way in s.masked.items():
        report = causality(s.way(way), s.inputs, lengths=lengths)
        outcomes.append(Outcome(replace(report, name=f"causality {name}"), must=True))
    return outcomes


def of_receptive_field(s: Subject, c: Claims) -> list[Outcome]:
    if c.window is None and not c.bidirectional:
        return []
    report = receptive_field(
        s.f,
        s.inputs,
        window=c.window,
        causal=not c.bidirectional,
        depth=s.layers,
        lengths=_field_lengths(s, c),
    )
    return [Outcome(report, must=True)]


def _field_lengths(s: Subject, c: Claims) -> tuple[int, ...]:
    if c.window is None:
        return s.fitting(1, 2, 3, 5, 12)
    reach = s.layers * (c.window - 1) + 1
    return s.fitting(*sorted({1, 2, reach, reach + 1, 2 * reach + 3}))


def seen(s: Subject, c: Claims) -> str:
    """Which keys reach a query, in words; nothing if it cannot be asked, or if experts blur it."""
    if getattr(s.inputs, "regroups", 0):
        return ""
    try:
        return field_in_words(s.f, s.inputs, max(_field_lengths(s, c)))
    except CannotBeCheckedError:
        return ""


def of_equivariance(s: Subject, c: Claims) -> list[Outcome]:
    report = equivariance(
        s.f, s.inputs, order_blind=not c.order_aware, lengths=s.fitting(3, 5, 12), depth=s.depth
    )
    if c.order_aware:
        return [Outcome(replace(report, name="order-aware"), must=True)]
    return [_found(replace(report, name="order-blind"), c.order_blind, c, "order-blind", "it knows order")]


def of_shift(s: Subject, c: Claims) -> list[Outcome]:
    if not s.takes_positions:
        why, do = s.questions.get(
            "shift",
            (
                "it takes no positions that are known by name",
                "Pass call=, a function of the module, x and positions",
            ),
        )
        return [Outcome(not_checked("shift", why, do), must=c.relative)]
    positioned = lambda x, positions: s.f(x, None, positions)  # noqa: E731
    trained = s.trained
    shifts = (1, -3, 17, 1000) if trained is None else (1, 17)
    report = shift(positioned, s.inputs, shifts=shifts, lengths=s.fitting(2, 5, 12), depth=s.depth)
    return [_found(report, c.relative, c, "relative")]


def of_padding(s: Subject, c: Claims) -> list[Outcome]:
    names = ("right padding", "left padding", "pad content")
    if not s.takes_keep:
        why, do = s.questions.get(
            "padding", ("it takes no mask of padding", "Pass call= with an argument keep")
        )
        must = c.left_padding
        return [Outcome(not_checked(name, why, do), must and name == names[1]) for name in names]
    padded = lambda x, keep: s.f(x, keep)  # noqa: E731
    lengths = s.fitting(1, 2, 5, 12, room=7)
    right = right_padding(padded, s.inputs, lengths=lengths, depth=s.depth)
    left = left_padding(padded, s.inputs, lengths=lengths, depth=s.depth)
    content = pad_content(padded, s.inputs, lengths=lengths)
    must = s.takes_positions or c.left_padding
    told = "" if must or left.passed else "it takes no positions, so the pads are counted as places"
    return [Outcome(right, must=True), Outcome(left, must=must, note=told), Outcome(content, must=True)]


def of_empty_rows(s: Subject, c: Claims) -> list[Outcome]:
    if s.attend is not None:
        if s.true_means is None:
            return []
        zeros = empty_rows(s.attend, policy="zeros", true_means=s.true_means)
        return [_found(zeros, c.empty_zeros, c, "empty-zeros")]
    if not s.takes_keep:
        return []
    padded = lambda x, keep: s.f(x, keep)  # noqa: E731
    report = lone_pads(padded, s.inputs, length=max(s.fitting(3, 5)), finite=c.empty_zeros, depth=s.depth)
    return [Outcome(report, must=True)]


def of_cache(s: Subject, c: Claims) -> list[Outcome]:
    if s.start is None:
        if not s.caches:
            return []
        why, do = s.questions.get(
            "cache", ("no cache is known", "Pass start=lambda module: step, where step(chunk) remembers")
        )
        return [Outcome(not_checked("cache", why, do), must=False)]
    begin = s.start
    start = lambda: begin(s.thing)  # noqa: E731
    options = {"window": s.window, "depth": s.depth, "lengths": s.fitting(1, 2, 3, 6, 11)}
    outcomes = [Outcome(cache(s.f, start, s.inputs, **options), must=True)]  # type: ignore[arg-type]
    if s.steps_keep:
        report = cache(s.f, start, s.inputs, rows="left", depth=s.depth, lengths=s.fitting(2, 6, 11, room=3))
        outcomes.append(Outcome(replace(report, name="cache of unequal rows"), must=True))
    return outcomes


def of_paths(s: Subject, c: Claims) -> list[Outcome]:
    strided = lambda x: s.f(x.transpose(0, 1).contiguous().transpose(0, 1))  # noqa: E731
    ways: dict[str, Callable[..., Tensor]] = {
        _PLAIN: s.f,
        "strided": strided,
        "without gradients": torch.no_grad()(s.f),
    }
    ways |= {name: s.way(way) for name, way in s.ways.items()}
    lengths = s.fitting(1, 2, 3, 8, 33)
    parameters = list(s.thing.parameters()) if isinstance(s.thing, nn.Module) else []
    report = paths(ways, s.inputs, lengths=lengths, depth=s.depth, parameters=parameters)
    why, do = "each takes longer than all the rest", "Pass them to check.paths, beside the plain call"
    return [
        Outcome(report, must=True),
        Outcome(not_checked("compiled and exported", why, do), must=False),
    ]


def of_effect(s: Subject, c: Claims) -> list[Outcome]:
    if not s.idle:
        return []
    failing = (
        f"{' and '.join(s.idle)} {'changes' if len(s.idle) == 1 else 'change'} nothing, in no form it takes"
    )
    cause = "Usually a mask that is read and not handed on: follow it to the softmax, on the path that runs"
    return [Outcome(failed("effect", tried="masks of all forms", failing=failing, cause=cause), must=True)]


def of_lifecycle(s: Subject, c: Claims) -> list[Outcome]:
    untouched, made = s.untouched, s.make
    if not isinstance(untouched, nn.Module):
        return []
    make = lambda: Called(copy.deepcopy(untouched) if made is None else made(), s.call)  # noqa: E731
    steps = tuple(step for step in s.lives if made is not None or step in ("cast", "copy"))
    places = _LONG if s.longest is None else min(s.longest, _LONG)
    report = lifecycle(make, s.inputs, length=places, steps=steps, depth=s.depth)
    told = f"tried {report.tried}" if report.passed and "(" in report.tried else ""  # a part was refused
    outcomes = [Outcome(report, must=True, note=told)]
    if made is None:
        why, do = "nothing makes another instance like it", "Pass make=, a function without arguments"
        outcomes.append(Outcome(not_checked("save and load", why, do), must=False))
    return outcomes


def of_length(s: Subject, c: Claims) -> list[Outcome]:
    if s.trained is None:
        return []
    report = length(s.f, s.inputs, trained=s.trained)
    loud = "crashes" in report.failing
    return [Outcome(report, must=not loud)]  # a crash is a nuisance, and no silent fault


def of_heads(s: Subject, c: Claims) -> list[Outcome]:
    if s.attend is None:
        return []
    outcomes = [_found(scale(s.attend), c.scaled, c, "scaled")]
    groups = kv_order(s.attend)
    if groups.verdict != "not checked":
        outcomes.append(Outcome(groups, must=True))
    return outcomes


def _found(report: Report, claimed: bool, claims: Claims, word: str, told: str = "") -> Outcome:
    """A property that must hold only if it is claimed."""
    if claimed or report.verdict == "not checked":
        return Outcome(report, must=claimed)
    if report.passed:
        more = claims.words and not (word == "causal" and claims.bidirectional)  # which fails, and says it
        return Outcome(report, must=False, note=f"it is also {word}, which was not claimed" if more else "")
    return Outcome(report, must=False, note=told)
