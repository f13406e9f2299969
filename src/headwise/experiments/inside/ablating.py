"""Runs a model without some heads, together and one at a time, and without random heads for comparison."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import comb, prod

from headwise.core import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.experiments.inside.ablation import Ablation, Effect
from headwise.experiments.inside.outcome import Outcome, outcome_of
from headwise.experiments.inside.subject import Subject, subject_of
from headwise.experiments.progress import each
from headwise.look import AttentionCall, Head, Mean, Replacement, Uniform, Zero, ablate, watch
from headwise.look.removal.head import HeadLike
from headwise.look.removal.layers import Layers
from headwise.models import Model

REPLACEMENTS: dict[str, Replacement] = {
    "zero": Zero(),
    "mean": Mean(),
    "uniform": Uniform(),
}
_MOST_SEED = 2**63 - 1


def ablate_heads(
    model: Model,
    text: str,
    heads: HeadLike | Iterable[HeadLike],
    *,
    to: str = "zero",
    draws: int = 5,
    seed: int = 0,
) -> Ablation:
    """What a text loses in a model whose heads are replaced: the loss of a language model, or the output.

    ``to`` is what takes the place of a head's output: "zero", "mean", its own mean over the text, or
    "uniform", what it would give if it looked at all it sees evenly. The random heads are drawn ``draws``
    times, as many in each layer as were chosen there, and never those.

    Raises HeadwiseError if there is no such head, or if the model cannot take the text.

    >>> from headwise.models import open_model
    >>> result = ablate_heads(open_model(), "The cat sat on the mat.", ["0.2", "1.1"], draws=2)
    >>> result.together.heads, len(result.alone), len(result.random), result.coverage.changed
    (['0.2', '1.1'], 2, 2, 2)
    """
    _check(to, draws, seed)
    subject = subject_of(model, text)
    layers = Layers()
    with watch(subject.network, lambda call: _note(layers, call)):
        base = outcome_of(subject)
    chosen = list(dict.fromkeys(layers.all_of(heads, who="ablate")))
    if not chosen:
        raise _refused("heads", "at least one", "none", "Without any nothing changes")
    with ablate(subject.network, chosen, REPLACEMENTS[to]) as coverage:
        together = _effect(outcome_of(subject), base, chosen)
    singles = [[head] for head in chosen] if len(chosen) > 1 else []
    others = random_draws(chosen, list(layers.heads.values()), draws, seed)
    effects = [
        _without(subject, base, some, to) for some in each([*singles, *others], "running without heads")
    ]
    return Ablation(
        model=model.name,
        text=text if len(text) <= 200 else f"{text[:199]}~",
        tokens=len(subject.tokens),
        to=to,
        loss=base.loss,
        together=together,
        alone=effects[: len(singles)] if singles else [together],
        random=effects[len(singles) :],
        seed=seed,
        coverage=coverage,
    )


def random_draws(
    chosen: Sequence[Head], sizes: Sequence[int], draws: int, seed: int, *, never: Collection[Head] = ()
) -> list[list[Head]]:
    """Sets of as many other heads of each layer, all different; fewer where there are not so many sets.

    None of ``never`` is drawn either.

    >>> [[str(head) for head in draw] for draw in random_draws([Head(0, 1)], [3], draws=5, seed=0)]
    [['0.2'], ['0.0']]
    """
    wanted, out = Counter(int(head.layer) for head in chosen), {*chosen, *never}
    others = {
        layer: [head for head in range(sizes[layer]) if Head(layer, head) not in out] for layer in wanted
    }
    sets = prod(comb(len(others[layer]), count) for layer, count in wanted.items())
    source = random.Random(seed)
    found: dict[tuple[Head, ...], list[Head]] = {}
    while len(found) < min(draws, sets):
        draw = tuple(
            Head(layer, head)
            for layer in sorted(wanted)
            for head in sorted(source.sample(others[layer], wanted[layer]))
        )
        found[draw] = list(draw)
    return list(found.values())


def _without(subject: Subject, base: Outcome, heads: Sequence[Head], to: str) -> Effect:
    with ablate(subject.network, heads, REPLACEMENTS[to]):
        return _effect(outcome_of(subject), base, heads)


def _effect(outcome: Outcome, base: Outcome, heads: Sequence[Head]) -> Effect:
    return outcome.against(base, [str(head) for head in heads])


def _note(layers: Layers, call: AttentionCall) -> None:
    layers.note(call)


def _check(to: str, draws: int, seed: int) -> None:
    if to not in REPLACEMENTS:
        raise _refused("to", f"one of {', '.join(REPLACEMENTS)}", repr(to), "Others are for look.ablate")
    if draws != 0:
        check_positive(draws, who="ablate", what="draws")
    if not 0 <= seed <= _MOST_SEED:
        raise _refused("seed", "from 0 to 2^63 - 1", str(seed), "It chooses the random heads")


def _refused(what: str, expected: str, got: str, why: str) -> HeadwiseError:
    return HeadwiseError(
        who="ablate",
        what=what,
        expected=expected,
        got=got,
        why=why,
        do='For example: headwise ablate "The cat sat on the mat" --heads 3.5 4.1 --to zero',
    )
