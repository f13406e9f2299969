"""Takes the padding out of a call: what is left are documents, whose first token comes first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.look.calls.call import HIDING, AttentionCall
from headwise.look.recordings.plainest import plainest


class Real(NamedTuple):
    """Which queries and keys of a call are tokens and not padding."""

    queries: Bool[Tensor, "batch query"]
    keys: Bool[Tensor, "batch key"]


class Document(NamedTuple):
    """A sequence of a call, or several of one length; ``row`` is the first one's place in the batch."""

    row: int
    call: AttentionCall
    keys: Bool[Tensor, " key"] | None
    """Which keys of the call are left, None for all."""


def documents(call: AttentionCall, real: Real, *, apart: bool = False) -> Iterator[Document]:
    """The sequences of a call one by one, without padding; all at once where there is none and none are asked
    for ``apart``.

    >>> x = torch.zeros(2, 1, 3, 4)
    >>> keep = torch.tensor([[False, True, True], [True, True, True]])
    >>> call = AttentionCall(x, x, x, x, scale=1.0, visible=keep[:, None, None])
    >>> [(row, one.q.shape[2], one.mask) for row, one, _ in documents(call, Real(keep, keep))]
    [(0, 2, None), (1, 3, None)]
    """
    if not apart and bool(real.queries.all()) and bool(real.keys.all()):
        yield Document(0, plainest(call), None)
        return
    for row in range(call.q.shape[0]):
        queries, keys = real.queries[row], real.keys[row]
        if bool(queries.any()) and bool(keys.any()):
            yield Document(row, plainest(_only(sequence(call, row), queries, keys)), keys)


def sequence(call: AttentionCall, row: int) -> AttentionCall:
    """One sequence of the batch.

    >>> x = torch.zeros(2, 1, 3, 4)
    >>> sequence(AttentionCall(x, x, x, x, scale=1.0), 1).q.shape
    torch.Size([1, 1, 3, 4])
    """

    def one(x: Tensor) -> Tensor:
        return x[row : row + 1] if x.shape[0] > 1 else x

    def maybe(x: Tensor | None) -> Tensor | None:
        return None if x is None else one(x)

    return replace(
        call,
        q=one(call.q),
        k=one(call.k),
        v=one(call.v),
        output=one(call.output),
        visible=maybe(call.visible),
        bias=maybe(call.bias),
        sinks=maybe(call.sinks),
        terms=None if call.terms is None else call.terms.only(row=row),
    )


def _only(call: AttentionCall, queries: Tensor, keys: Tensor) -> AttentionCall:
    """A sequence with some of its queries and keys."""
    count, others = call.q.shape[2], call.k.shape[2]
    visible, causal = call.visible, call.causal
    in_step = count == others and torch.equal(queries, keys)
    if causal is not None and not in_step:  # dropping pairs from a triangle leaves no triangle
        call = call.at(torch.arange(count, device=call.q.device))
        visible, causal = call.visible, None

    def of_pairs(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        x = x[:, :, queries] if x.shape[2] > 1 else x
        return x.expand(-1, -1, -1, others)[..., keys]

    return replace(
        call,
        q=call.q[:, :, queries],
        output=call.output[:, :, queries],
        k=call.k[:, :, keys],
        v=call.v[:, :, keys],
        visible=of_pairs(visible),
        bias=of_pairs(call.bias),
        sinks=None if call.sinks is None else call.sinks[:, :, queries],
        causal=causal,
        terms=None if call.terms is None else call.terms.only(queries=queries, keys=keys),
    )


def seen_by(call: AttentionCall, rows: Tensor) -> Tensor:
    """How many of these queries see each key, ``[batch key]``, in any head.

    >>> x = torch.zeros(1, 1, 3, 4)
    >>> seen_by(AttentionCall(x, x, x, x, scale=1.0, causal="upper left"), torch.tensor([0, 1, 2]))
    tensor([[3., 2., 1.]], dtype=torch.float64)
    """
    batch, (queries, keys) = call.q.shape[0], (call.q.shape[2], call.k.shape[2])
    if call.visible is None and call.bias is None:
        last = torch.full_like(rows, keys - 1)
        if call.causal is not None:
            last = rows + (0 if call.causal == "upper left" else keys - queries)
        ends = torch.bincount(last.clamp(max=keys - 1), minlength=keys)
        return ends.flip(0).cumsum(0).flip(0).double().expand(batch, -1)
    some = call.at(rows)
    seen = some.visible
    if some.bias is not None:
        seen = some.bias > HIDING if seen is None else seen & (some.bias > HIDING)
    assert seen is not None
    return seen.any(1).expand(batch, len(rows), keys).sum(1).double()
