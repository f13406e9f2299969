"""Reads the attention of a model that runs over a plan's texts, and answers every question in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.map_values import lengths_of
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.coverage import Coverage
from headwise.look.calls.watch import watch
from headwise.look.removal.layers import Layers
from headwise.look.roles.evidence import Evidence
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.plan import Group, Plan

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
        self.sums: dict[tuple[int, int], dict[int, np.ndarray]] = {}
        self.number = 0

    def take(self, call: AttentionCall) -> None:
        """One attention call of the text whose turn it is. Cross-attention answers no question about a text."""
        text = self.plan.texts[self.number]
        layer = self.layers.note(call)
        if call.q.shape[0] != 1 or call.q.shape[2] != len(text) or call.k.shape[2] != len(text):
            return
        weights = self._variants(call, text)
        for group in self.plan.groups[self.number]:
            for role, sums in zip(group.roles, self._answers(group, weights, text), strict=True):
                self.sums.setdefault((role, self.number), {})[layer] = sums

    def _variants(self, call: AttentionCall, text: Labelled) -> Float[Tensor, "variant_head token token"]:
        weights = call.weights()[0].float()
        lengths = self._lengths(call)
        carried = weights * lengths[:, None]
        left = weights.masked_fill(text.sinks, 0.0)
        return torch.cat([weights, _to_one(carried), _to_one(left)])

    def _lengths(self, call: AttentionCall) -> Float[Tensor, "head token"]:
        output_weight = self.output_weights.get(call.layer)
        if output_weight is not None and output_weight.shape[1] == call.heads * call.v.shape[3]:
            return lengths_of(call.v, output_weight, call.heads)[0].float()
        return call.v[0].float().norm(dim=-1).repeat_interleave(call.heads // call.kv_heads, dim=0)

    def _answers(
        self, group: Group, weights: Tensor, text: Labelled
    ) -> Float[np.ndarray, "role measured variant head"]:
        """Score and control of each role, summed over its rows of this text."""
        between = group.question.unit.read(weights, text)
        rows, member = group.items.rows, group.member
        at_once = max(1, _ELEMENTS_AT_ONCE // (len(between) * between.shape[2]))
        sums = torch.zeros(len(group.roles), 2, len(between))
        for start in range(0, len(rows), at_once):
            here = slice(start, start + at_once)
            measured = group.question.measure(between[:, rows[here]], group.items.at(here), group.chance[here])
            sums += torch.einsum("rhi,gi->grh", torch.stack(measured), member[:, here])
        return sums.view(len(group.roles), 2, VARIANTS, -1).double().numpy()

    @property
    def self_attention(self) -> list[int]:
        """The numbers of the layers that read the texts themselves."""
        return sorted(next(iter(self.sums.values()), {}))

    def evidence(self, halves: Callable[[list[int]], np.ndarray]) -> Iterable[Evidence]:
        """What was seen of every role. ``halves`` says which of some texts are of the first half."""
        for number, plan in enumerate(self.plan.roles):
            of_texts = [self.sums[number, text] for text in plan.texts]
            layers = self.self_attention
            stacked = np.stack([np.concatenate([sums[layer] for layer in layers], axis=-1) for sums in of_texts])
            score, control = np.moveaxis(stacked, 0, 2)
            yield Evidence(
                plan.name,
                plan.question,
                plan.counts.double().numpy(),
                plan.offsets.double().numpy(),
                plan.even.double().numpy(),
                score,
                control,
                halves(plan.texts),
            )


def _to_one(weights: Float[Tensor, "head query key"]) -> Float[Tensor, "head query key"]:
    """Rows that add up to 1 again; a row of nothing stays so."""
    total = weights.sum(-1, keepdim=True)
    return weights / total.where(total > 0, 1.0)


def read_roles(
    model: nn.Module, plan: Plan, run: Callable[[Labelled], object], numbers: Iterable[int],
    output_weights: Mapping[str, Tensor] | None = None,
) -> tuple[RoleReader, Coverage]:
    """Run the model over every text of a plan, once, and read all that was asked.

    ``numbers`` are those of the texts, with a progress bar around them perhaps.
    """
    reader = RoleReader(plan, output_weights)
    with watch(model, reader.take) as coverage, torch.no_grad():
        for number in numbers:
            reader.number = number
            run(plan.texts[number])
    return reader, coverage
