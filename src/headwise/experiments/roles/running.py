"""Runs the battery: reads a model on every probe, decides each role, and gives each head its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from itertools import accumulate

from jaxtyping import Int
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.experiments.progress import each
from headwise.experiments.roles.battery import NO_ROLE, Confirmation, RoleBattery, RoleResult
from headwise.experiments.roles.confirming import confirmation_of
from headwise.experiments.roles.copied import copies_of
from headwise.experiments.roles.deciding import decided, role_of_each
from headwise.experiments.roles.halves import first_half
from headwise.experiments.roles.leaving_out import check_known, left_out
from headwise.experiments.roles.probes import Probe, Sources, probes_of
from headwise.experiments.roles.sentences import four_sentences
from headwise.experiments.roles.tokenised import is_causal
from headwise.experiments.roles.untrained import untrained_copy
from headwise.look import Coverage
from headwise.look.roles.evidence import Evidence
from headwise.look.roles.mixing import output_weights
from headwise.look.roles.plan import Plan, most_texts, plan_of
from headwise.look.roles.reading import RoleReader, read_roles
from headwise.models import TextModel


def run_roles(
    model: TextModel,
    sources: Sequence[Sources] = (),
    *,
    roles: Sequence[str] = (),
    confirm: bool = False,
    untrained: int | None = None,
    seed: int = 0,
) -> RoleBattery:
    """Which heads of a model hold which role, with the evidence.

    ``sources`` are texts with or without labels; with fewer than 20 sentences of 5 to 30 words among them,
    roles of positions and tokens are read on the package's own. ``roles`` keeps those of the names or
    families given. ``confirm`` removes the heads of each role that is held and measures what happens.
    ``seed`` draws random tokens and heads. ``untrained`` asks the same of a copy with random weights, drawn
    with that seed: nothing should be found.

    Raises HeadwiseError if a role is not known or too few texts have rows for it, if a seed is none, if a
    text does not fit the model, or if the model shows no attention of a text to itself.

    >>> from headwise.models import open_model
    >>> battery = run_roles(open_model(), roles=["previous token"])
    >>> [head.head for head in battery.roles[0].heads][:1]
    ['0.2']
    """
    _check_seeds(seed=seed, untrained=untrained)
    if untrained is not None:
        model = untrained_copy(model, untrained)
    causal = is_causal(model)
    plans = [
        (probe, plan_of(probe.texts, probe.questions, only=roles))
        for probe in probes_of(model, sources, causal=causal, seed=seed)
    ]
    known = most_texts(pair for _, plan in plans for pair in plan.known.items())
    check_known(roles, sources, known=known, causal=causal)
    run = _Run(model)
    found = [(probe, evidence) for probe, plan in plans for evidence in run.evidence(probe, plan)]
    results = [decided(evidence, run.heads, probe.data, len(found)) for probe, evidence in found]
    results = [run.with_copies(one, probe) for one, (probe, _) in zip(results, found, strict=True)]
    of_heads = role_of_each(results, run.heads)
    missing = left_out(results, sources, roles, known=known, causal=causal)
    return RoleBattery(
        model=model.name,
        untrained_seed=untrained,
        data=list(dict.fromkeys(probe.data for probe, _ in found)),
        roles=results,
        of_heads=run.by_layer(of_heads),
        share_with_role=1 - of_heads.count(NO_ROLE) / len(of_heads),
        left_out=missing,
        sentences=four_sentences(results, missing),
        confirmed=_confirmed(model, results, [probe for probe, _ in found], run, seed) if confirm else [],
        coverage=str(run.coverage),
    )


_SAVES_WORK = {"logits_to_keep": 1, "use_cache": False}


class _Run:
    """One model on probe after probe: its heads are the same each time."""

    def __init__(self, model: TextModel) -> None:
        self.model, self.coverage = model, Coverage(type(model.network).__name__)
        self.mixing: dict[str, Tensor] | None = None
        self.sizes: list[int] = []
        known = signature(model.network.forward).parameters
        self.options = {name: value for name, value in _SAVES_WORK.items() if name in known}

    @property
    def heads(self) -> list[str]:
        return [f"{layer}.{head}" for layer, heads in enumerate(self.sizes) for head in range(heads)]

    def by_layer(self, of_heads: Sequence[str]) -> list[list[str]]:
        starts = accumulate(self.sizes, initial=0)
        return [list(of_heads[start : start + size]) for start, size in zip(starts, self.sizes, strict=False)]

    def evidence(self, probe: Probe, plan: Plan) -> list[Evidence]:
        """What was seen of the roles of a plan, beside the control texts where there are such."""
        found = self._read(plan, probe)
        if not found or not probe.controls:
            return found
        control = plan_of(probe.controls, probe.questions, only=[role.name for role in plan.roles])
        return [one.beside(other) for one, other in zip(found, self._read(control, probe), strict=True)]

    def with_copies(self, result: RoleResult, probe: Probe) -> RoleResult:
        """The result with what its heads write, where that can be asked."""
        found = copies_of(self.model, result, probe, self._run, self.mixing or {}, len(self.sizes))
        return replace(result, copies=found)

    def _read(self, plan: Plan, probe: Probe) -> list[Evidence]:
        if not plan.roles:
            return []
        if self.mixing is None:
            ids = plan.texts[0].ids[None]
            self.mixing = output_weights(self.model.network, lambda: self._run(ids))
        batches = each(plan.batches(), f"{self.model.name}: reading {probe.data}")
        reader, coverage = read_roles(self.model.network, plan, self._run, batches, self.mixing)
        self.coverage += coverage
        self._note(reader)
        documents = [text.notes.document for text in plan.texts]
        return list(reader.evidence(lambda texts: first_half([documents[text] for text in texts])))

    def _run(self, ids: Int[Tensor, "batch token"]) -> object:
        return self.model.network(input_ids=ids, **self.options)

    def _note(self, reader: RoleReader) -> None:
        sizes = list(reader.layers.heads.values())
        self.sizes = [sizes[layer] for layer in reader.self_attention]


def _confirmed(
    model: TextModel, results: Sequence[RoleResult], probes: Sequence[Probe], run: _Run, seed: int
) -> list[Confirmation]:
    pairs = [(result, probe) for result, probe in zip(results, probes, strict=True) if result.heads]
    found = [confirmation_of(model, result, probe, run.sizes, seed=seed) for result, probe in pairs]
    return [one for one in found if one is not None]


def _check_seeds(**seeds: int | None) -> None:
    for name, seed in seeds.items():
        if seed is not None and not 0 <= seed < 2**63:
            raise HeadwiseError(
                who="roles",
                what=name,
                expected="from 0 to 2^63 - 1",
                got=str(seed),
                why="It chooses random numbers",
                do="Use a number such as 0",
            )
