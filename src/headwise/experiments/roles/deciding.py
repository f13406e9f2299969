"""Decides which heads hold a role: chosen on one half of the texts, reported on the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwise.experiments.roles.battery import NO_ROLE, HeadScore, RoleResult
from headwise.look.roles.chernoff import chernoff_bound
from headwise.look.roles.evidence import ALWAYS, RAW, VALUE_WEIGHTED, WITHOUT_SINKS, Evidence
from headwise.look.roles.signs import chance_of_best

LEVEL = 0.05
SINKS = "sinks"
_NORMAL_95 = 1.96  # standard errors on either side
_MOSTLY = 0.8  # of each other: then the best head does no more than a fixed distance does
_OFTEN = 0.5  # of the rows: with less than half of them right, a fixed distance explains little itself


def decided(evidence: Evidence, names: Sequence[str], data: str, roles_asked: int) -> RoleResult:
    """The heads that hold a role, the best on the first half of the texts first.

    A head is chosen on the first half: it scores ``least`` and beats the baseline, and its control text, by
    ``margin``. It holds the role if that is so on the second half too, with 95 % confidence that it is above
    the baseline at all, and if p is below 5 %. That is of all texts, as being the best of all heads is in the
    null already, and times ``roles_asked``. It is the larger of two: over random signs, and, where chance is
    known and not a control text's, by a bound that needs no symmetry.
    """
    first, second = evidence.first_half, evidence.second_half
    question = evidence.question
    chosen, on_first = _passes(evidence, first), evidence.mean(first)
    best = int(np.argmax(on_first))
    chance = np.minimum(1.0, _chance(evidence, chosen | (np.arange(len(chosen)) == best)) * roles_asked)
    above, error = evidence.above(second)
    held = chosen & _passes(evidence, second) & (above > _NORMAL_95 * error) & (chance < LEVEL)
    score, wrong = evidence.mean(second), evidence.error(second)
    low, high = score - _NORMAL_95 * wrong, score + _NORMAL_95 * wrong
    columns = {
        "whole": evidence.mean(),
        "value_weighted": evidence.mean(second, VALUE_WEIGHTED),
        "without_sinks": evidence.mean(second, WITHOUT_SINKS),
        "control": evidence.mean_of_control(second, RAW),
    }
    baseline = evidence.baseline(second)

    def of(head: int) -> HeadScore:
        return HeadScore(
            head=names[head],
            score=float(score[head]),
            low=max(0.0, float(low[head])),
            high=min(1.0, float(high[head])),
            error=float(wrong[head]),
            baseline=baseline,
            p=float(chance[head]),
            held=bool(held[head]),
            **{name: float(column[head]) for name, column in columns.items()},
        )

    order = np.argsort(-on_first, kind="stable")
    alike = _MOSTLY * score[best] <= baseline <= score[best] / _MOSTLY
    by_distance = evidence.baseline_name.startswith(ALWAYS) and baseline >= _OFTEN and bool(alike)
    return RoleResult(
        role=evidence.role,
        family=question.family,
        asks=question.asks,
        data=data,
        rows=evidence.rows(),
        texts=len(evidence.counts),
        units=evidence.units,
        baseline_name=evidence.baseline_name,
        least=question.least,
        margin=question.margin,
        best=of(best),
        heads=[of(int(head)) for head in order if held[head]],
        verdict="held" if held.any() else "position" if by_distance else "none",
    )


def _chance(evidence: Evidence, asked: np.ndarray) -> np.ndarray:
    """p of the heads that are asked for, against the best of all heads.

    The bound is by text: by chance, targets are dealt out anew in each, so that texts of one document are
    independent whatever a head does there. Signs are by document, as all else that a document shares is.
    """
    by_sign = chance_of_best(evidence.excess(evidence.everything))
    if evidence.controlled:  # a text and its control could be swapped: signs are exact
        return by_sign
    score, control = (sums[RAW][:, asked] for sums in (evidence.score, evidence.control))
    by_bound = np.ones(len(asked))
    by_bound[asked] = chernoff_bound(score, control, evidence.counts)
    return np.maximum(by_sign, by_bound * len(asked))


def _passes(evidence: Evidence, half: np.ndarray) -> np.ndarray:
    above, _ = evidence.above(half)
    question = evidence.question
    return (evidence.mean(half) >= question.least) & (above >= question.margin)


def role_of_each(results: Sequence[RoleResult], names: Sequence[str]) -> list[str]:
    """Each head's best-supported role: of those it holds, the one that gets most of the way from rival to 1.

    A sink comes last: it is where a head looks that finds nothing to look at.

    >>> role_of_each([], ["0.0"])
    ['none']
    """
    best: dict[str, tuple[bool, float, float, str]] = {}
    for result in results:
        for head in result.heads:
            rival = max(head.baseline, head.control)
            support = (head.score - rival) / max(1 - rival, 1e-9)
            # of two as good, the one that is harder to have by chance
            found = (result.family != SINKS, round(support, 2), -rival, result.role)
            best[head.head] = max(best.get(head.head, found), found)
    return [best[name][-1] if name in best else NO_ROLE for name in names]
