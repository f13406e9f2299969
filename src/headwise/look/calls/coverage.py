"""What a watcher saw, what it could not see and why, and how exactly it understood what it saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite

import torch
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.blocks import grouped_product
from headwise.look.calls.call import AttentionCall

_MOST_SCORES = 2**24  # recomputed for one check: 64 MiB in float32


@dataclass
class Coverage:
    """An account of one watched block; complete when the block has ended.

    - ``seen`` counts calls by kind, ``modules`` by module path.
    - ``unseen`` says what could not be seen: how often, by reason.
    - ``fast_path_off``: torch would have run some layers as one native call, and did not because it was
      watched. Outputs at padded positions may differ from an unwatched run.
    - ``largest_difference`` is between recomputed ``P V`` and the output the model got, relative to the
      largest output of its call; ``compared`` calls were checked, ``not_comparable`` could not be, by reason.
    - ``changed`` calls gave the model another output than they had computed.

    >>> print(Coverage("Mamba"))
    Mamba: no attention at all: 0 calls, and no module that looks like attention ran
    >>> print(Coverage("Tiny", seen={"fused": 2}, modules={"attn": 2}, compared=2, largest_difference=3e-7))
    Tiny: 2 attention calls seen in 1 module (2 fused), none missed as far as can be told
    outputs recomputed for 2 of 2 calls: largest relative difference 3.0e-07
    """

    model: str
    seen: dict[str, int] = field(default_factory=dict)
    modules: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    fast_path_off: bool = False
    compared: int = 0
    not_comparable: dict[str, int] = field(default_factory=dict)
    largest_difference: float = 0.0
    changed: int = 0

    @property
    def calls(self) -> int:
        """How many calls were seen."""
        return sum(self.seen.values())

    @property
    def complete(self) -> bool:
        """Whether at least one call was seen and nothing is known to be missed."""
        return self.calls > 0 and not self.unseen

    def count(self, call: AttentionCall) -> None:
        """Add a call that was seen."""
        self.seen[call.kind] = self.seen.get(call.kind, 0) + 1
        self.modules[call.module] = self.modules.get(call.module, 0) + 1

    def miss(self, reason: str, count: int = 1) -> None:
        """Add something that could not be seen."""
        self.unseen[reason] = self.unseen.get(reason, 0) + count

    def verify(self, call: AttentionCall, rows: int | None = None) -> None:
        """Recompute a call's output, at ``rows`` of its queries or at all; keep the largest difference."""
        reason = why_not_comparable(call)
        if reason is not None:
            self.not_comparable[reason] = self.not_comparable.get(reason, 0) + 1
            return
        self.compared += 1
        self.largest_difference = max(self.largest_difference, relative_difference(call, rows))

    def __add__(self, other: Coverage) -> Coverage:
        """The account of two watched blocks together.

        >>> (Coverage("Tiny", seen={"fused": 2}) + Coverage("Tiny", seen={"fused": 1})).calls
        3
        """
        model = self.model if self.model == other.model else f"{self.model} and {other.model}"
        counts = (
            {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
            for first, second in (
                (self.seen, other.seen),
                (self.modules, other.modules),
                (self.unseen, other.unseen),
                (self.not_comparable, other.not_comparable),
            )
        )
        seen, modules, unseen, not_comparable = counts
        return Coverage(
            model,
            seen,
            modules,
            unseen,
            self.fast_path_off or other.fast_path_off,
            self.compared + other.compared,
            not_comparable,
            max(self.largest_difference, other.largest_difference),
            self.changed + other.changed,
        )

    def __str__(self) -> str:
        lines = [f"{self.model}: {self._summary()}"]
        lines += [f"not seen: {reason} ({count})" for reason, count in self.unseen.items()]
        if self.fast_path_off:
            lines.append("torch's fast path was off because it was watched: padded positions may differ")
        if self.changed:
            lines.append(f"outputs changed in {self.changed} of {self.calls} calls")
        if self.compared:
            difference = f"largest relative difference {self.largest_difference:.1e}"
            lines.append(f"outputs recomputed for {self.compared} of {self.calls} calls: {difference}")
        lines += [f"not comparable: {reason} ({count})" for reason, count in self.not_comparable.items()]
        return "\n".join(lines)

    def _summary(self) -> str:
        if not self.calls and not self.unseen:
            return "no attention at all: 0 calls, and no module that looks like attention ran"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.seen.items())
        plural = "s" if self.calls != 1 else ""
        modules = f"{len(self.modules)} module{'s' if len(self.modules) != 1 else ''}"
        seen = f"{self.calls} attention call{plural} seen" + (
            f" in {modules} ({kinds})" if self.calls else ""
        )
        return seen + ("" if self.unseen else ", none missed as far as can be told")


def why_not_comparable(call: AttentionCall) -> str | None:
    """Why the output of a call cannot be recomputed, None if it can.

    >>> x = torch.zeros(1, 1, 2, 2)
    >>> why_not_comparable(AttentionCall(x, x, x, x, scale=1.0, dropout=0.1))
    'dropout is random'
    """
    if call.dropout > 0:
        return "dropout is random"
    if call.q.is_meta:
        return "tensors without numbers"
    if not call.is_finite:
        return "queries or keys are not finite"
    return "empty" if not (call.output.numel() and call.k.shape[2]) else None


@torch.no_grad()
def relative_difference(call: AttentionCall, rows: int | None = None) -> float:
    """The largest difference of recomputed ``P V`` from the output, relative to the largest output.

    Long calls, or all where ``rows`` says how many, are checked at rows spread evenly over the queries. Rows
    where the model itself got NaN are left out; a NaN that only the recomputation has counts as infinity.

    >>> x = torch.ones(1, 1, 2, 2)
    >>> relative_difference(AttentionCall(x, x, x, x, scale=1.0))
    0.0
    >>> relative_difference(AttentionCall(x, x, x, 2 * x, scale=1.0))
    0.5
    """
    batch, heads, queries, _ = call.q.shape
    most = max(1, _MOST_SCORES // (batch * heads * call.k.shape[2]))
    most = most if rows is None else min(most, rows)
    if queries > most:
        call = call.at(torch.linspace(0, queries - 1, most, device=call.q.device).long())
    weights = call.weights()
    recomputed = grouped_product(weights, call.v.to(weights.dtype))
    if call.terms is not None and call.terms.of_values is not None:
        with without_autocast(weights.device):
            places = slice(0, weights.shape[2]), slice(0, call.k.shape[2])
            recomputed += call.terms.value_bias(weights, *places)
    return _largest(recomputed, call.output.to(recomputed.dtype))


def _largest(recomputed: Tensor, real: Tensor) -> float:
    if real.numel():  # the usual case in few steps
        difference, largest = (float(x.abs().max()) for x in (recomputed - real, real))
        if isfinite(difference) and isfinite(largest):
            return difference / largest if largest else difference
    known = real.isfinite()
    if not bool(known.any()):
        return 0.0
    difference = float((recomputed - real)[known].abs().nan_to_num(nan=inf).max())
    largest = float(real[known].abs().max())
    return difference / largest if largest else difference
