"""What a head's output may be replaced by: zero, a mean, or what even attention would give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core import HeadwiseError, attention
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.watch import watch
from headwise.look.removal.rows import real_rows, visible_pairs


@runtime_checkable
class Replacement(Protocol):
    """Gives the new output of some heads of a call; what it makes of the call's tensors takes gradients."""

    def __call__(
        self, call: AttentionCall, heads: Sequence[int]
    ) -> Float[Tensor, "batch chosen query value_dim"]: ...


@dataclass(frozen=True)
class Zero:
    """The output is 0: the head adds nothing.

    >>> x = torch.ones(1, 2, 3, 4)
    >>> Zero()(AttentionCall(x, x, x, x, scale=1.0), [1]).shape
    torch.Size([1, 1, 3, 4])
    """

    def __call__(
        self, call: AttentionCall, heads: Sequence[int]
    ) -> Float[Tensor, "batch chosen query value_dim"]:
        batch, _, queries, value_dim = call.output.shape
        return call.output.new_zeros(batch, len(heads), queries, value_dim)


@dataclass(frozen=True, eq=False)
class Mean:
    """The output is the head's mean, the same vector for every query: what it says of each is gone.

    Without a reference the mean is over the real rows of the same call, those of the whole batch together. A
    row is real if its query sees a key, and, in a call with as many queries as keys, if some query sees the
    key in its own place: so padding does not count. Padding among the queries of cross-attention cannot be
    told and does. In a call of one row, as when a model writes token by token, the mean is that row, and
    nothing is removed: give a reference there.

    ``reference`` holds a mean for each layer by name, ``[heads value_dim]``; ``Mean.over`` measures one.
    Raises HeadwiseError if the reference lacks a layer or does not fit it.

    >>> x = torch.arange(3.0).view(1, 1, 3, 1)
    >>> call = AttentionCall(x, x, x, x, scale=1.0, module="attn")
    >>> Mean()(call, [0]).flatten(), Mean({"attn": torch.full((1, 1), 7.0)})(call, [0]).flatten()
    (tensor([1., 1., 1.]), tensor([7., 7., 7.]))
    """

    reference: Mapping[str, Float[Tensor, "heads value_dim"]] | None = None

    def __call__(
        self, call: AttentionCall, heads: Sequence[int]
    ) -> Float[Tensor, "batch chosen query value_dim"]:
        if self.reference is None:
            total, count = _total(call.of(heads))
            mean = total / count.clamp(min=1)[:, None]
        else:
            mean = self._of(call)[torch.tensor(heads, dtype=torch.long)]
        batch, _, queries, _ = call.output.shape
        return mean.to(call.output)[None, :, None].expand(batch, -1, queries, -1)

    @classmethod
    @torch.no_grad()
    def over(cls, model: nn.Module, run: Callable[[], object]) -> Mean:
        """The mean of every head over all real rows while ``run`` runs the model on reference data.

        >>> layer = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        >>> x = torch.randn(1, 3, 8)
        >>> Mean.over(layer, lambda: layer(x, x, x)).reference[""].shape
        torch.Size([2, 4])
        """
        totals: dict[str, Tensor] = {}
        counts: dict[str, Tensor] = {}

        def add(call: AttentionCall) -> None:
            total, count = _total(call)
            totals[call.layer] = totals.get(call.layer, 0) + total
            counts[call.layer] = counts.get(call.layer, 0) + count

        with watch(model, add):
            run()
        return cls({layer: total / counts[layer].clamp(min=1)[:, None] for layer, total in totals.items()})

    def _of(self, call: AttentionCall) -> Tensor:
        assert self.reference is not None
        mean = self.reference.get(call.layer)
        wanted = (call.heads, call.output.shape[3])
        if not isinstance(mean, Tensor) or tuple(mean.shape) != wanted:
            raise HeadwiseError(
                who="Mean",
                what=f"the reference of layer {call.layer!r}",
                expected=f"a tensor of shape {list(wanted)}",
                got="none" if mean is None else str(list(mean.shape)),
                why="It takes the place of the output of the layer's heads",
                do="Measure it on the same model: Mean.over(model, run)",
            )
        return mean


@dataclass(frozen=True)
class Uniform:
    """Attention is spread evenly over the visible keys: ``p_ij = 1 / visible_i``, then ``P V``.

    A bias of -1e4 or less hides its key, and any other is dropped; sinks get nothing. What the output gains
    because values depend on who reads them is that of even attention, too. Memory is
    O(query + key) beside the call's own mask.

    >>> v = torch.arange(3.0).view(1, 1, 3, 1)
    >>> Uniform()(AttentionCall(v, v, v, v, scale=1.0, causal="upper left"), [0]).flatten()
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __call__(
        self, call: AttentionCall, heads: Sequence[int]
    ) -> Float[Tensor, "batch chosen query value_dim"]:
        chosen = call.of(heads)
        mask = replace(chosen, visible=visible_pairs(chosen)).mask
        q, k = torch.zeros_like(chosen.output), torch.zeros_like(chosen.v)  # as wide as v: a kernel serves
        has_terms = chosen.terms is not None and chosen.terms.of_values is not None
        value_bias = chosen.terms.value_bias if chosen.terms is not None and has_terms else None
        return attention(q, k, chosen.v, mask=mask, value_bias=value_bias)


def _total(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """The sum of each head's real rows and how many they are."""
    rows = real_rows(call).expand(call.output.shape[:3])
    total = call.output.masked_fill(~rows[..., None], 0.0).sum(dim=(0, 2), dtype=torch.float64)
    return total, rows.sum(dim=(0, 2))
