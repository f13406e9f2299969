"""Reads the attention of a model that runs over a plan's texts, and answers every question in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.core.map_values import lengths_of
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.coverage import Coverage
from headwise.look.calls.watch import watch
from headwise.look.removal.layers import Layers
from headwise.look.roles.evidence import Evidence
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.plan import Group, Plan

Sums = NDArray[np.float32]
VARIANTS = 3  # attention as it is, weighted by its values, without sinks
_ELEMENTS_AT_ONCE = 2**22


class RoleReader:
    """Takes the calls of a model, text by text, and adds up what every head scores in every role.

    ``output_weights`` are those of the layers that mix the heads, by the name of the attention layer; where
    one is not known, a value's own length stands for what it adds.
    """

    def __init__(self, plan: Plan, output_weights: Mapping[str, Tensor] | None = None) -> None:
        self.plan, self.output_weights = plan, output_weights or {}
        self.layers = Layers()
        self.sums: dict[int, Sums] = {}
        starts = accumulate((len(role.texts) for role in plan.roles), initial=0)
        self.places = {
            (number, text): start + at
            for (number, role), start in zip(enumerate(plan.roles), starts, strict=False)
            for at, text in enumerate(role.texts)
        }
        self.numbers: list[int] = []

    def take(self, call: AttentionCall) -> None:
        """One call of the texts whose turn it is. Cross-attention answers no question about a text."""
        texts = [self.plan.texts[number] for number in self.numbers]
        layer = self.layers.note(call)
        if call.q.shape[::2] != (len(texts), len(texts[0])) or call.k.shape[2] != len(texts[0]):
            return
        weights = call.weights().float()
        carried = _to_one(weights * self._lengths(call)[:, :, None])
        sinks = torch.stack([text.sinks for text in texts])[:, None, None]
        variants = torch.stack([weights, carried, _to_one(weights.masked_fill(sinks, 0.0))], dim=1).flatten(
            1, 2
        )
        if layer not in self.sums:  # one array, as millions of small ones would pin the heap between tensors
            sizes = (len(self.places), 2, VARIANTS, call.heads)
            self.sums[layer] = np.zeros(sizes, dtype=np.float32)
        for number, text, of_text in zip(self.numbers, texts, variants, strict=True):
            for group in self.plan.groups[number]:
                places = [self.places[role, number] for role in group.roles]
                self.sums[layer][places] = self._answers(group, of_text, text)

    def _lengths(self, call: AttentionCall) -> Float[Tensor, "batch head token"]:
        output_weight = self.output_weights.get(call.layer)
        if output_weight is not None and output_weight.shape[1] == call.heads * call.v.shape[3]:
            return lengths_of(call.v, output_weight, call.heads).float()
        own: Tensor = call.v.float().norm(dim=-1).repeat_interleave(call.heads // call.kv_heads, dim=1)
        return own

    def _answers(self, group: Group, weights: Tensor, text: Labelled) -> Sums:
        """Score and control of each role, by variant and head, summed over its rows of this text."""
        between = group.question.unit.read(weights, text)
        rows, member = group.items.rows, group.member
        at_once = max(1, _ELEMENTS_AT_ONCE // (len(between) * between.shape[2]))
        sums = torch.zeros(len(group.roles), 2, len(between))
        for start in range(0, len(rows), at_once):
            here = slice(start, start + at_once)
            measured = group.question.measure(
                between[:, rows[here]], group.items.at(here), group.chance[here]
            )
            sums += torch.einsum("rhi,gi->grh", torch.stack(measured), member[:, here])
        found: Sums = sums.view(len(group.roles), 2, VARIANTS, -1).numpy()
        return found

    @property
    def self_attention(self) -> list[int]:
        """The numbers of the layers that read the texts themselves."""
        return sorted(self.sums)

    def evidence(self, halves: Callable[[list[int]], NDArray[np.bool_]]) -> Iterable[Evidence]:
        """What was seen of every role. ``halves`` says which of some texts are of the first half."""
        start = 0
        for plan in self.plan.roles:
            here = slice(start, start + len(plan.texts))
            start = here.stop
            layers = [self.sums[layer][here] for layer in self.self_attention]
            score, control = np.moveaxis(np.concatenate(layers, axis=-1), 0, 2).astype(np.float64)
            yield Evidence(
                plan.name,
                plan.question,
                plan.counts.double().numpy(),
                plan.offsets.double().numpy(),
                plan.even.double().numpy(),
                score,
                control,
                halves(plan.texts),
                plan.nearest.double().numpy(),
                first=plan.first.double().numpy(),
                documents=[self.plan.texts[text].notes.document for text in plan.texts],
            )


def _to_one(weights: Float[Tensor, "head query key"]) -> Float[Tensor, "head query key"]:
    """Rows that add up to 1 again; a row of nothing stays so."""
    total = weights.sum(-1, keepdim=True)
    return weights / total.where(total > 0, 1.0)


def read_roles(
    model: nn.Module,
    plan: Plan,
    run: Callable[[Int[Tensor, "batch token"]], object],
    batches: Iterable[list[int]] | None = None,
    output_weights: Mapping[str, Tensor] | None = None,
) -> tuple[RoleReader, Coverage]:
    """Run the model over the texts of a plan, once each, and read all that was asked.

    ``run`` gives the model the tokens of some texts; ``batches`` are those of the plan, with a progress bar
    around them perhaps.
    """
    reader = RoleReader(plan, output_weights)
    with watch(model, reader.take) as coverage, torch.no_grad():
        for numbers in plan.batches() if batches is None else batches:
            reader.numbers = numbers
            run(torch.stack([plan.texts[number].ids for number in numbers]))
    return reader, coverage
