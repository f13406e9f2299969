"""Does True in a mask mean what is claimed?"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from headwise.check.asking import ask, checked
from headwise.check.comparing import distance, place
from headwise.check.properties.scale import Attend
from headwise.check.report import Report, judged
from headwise.check.rounding import same_kernels

Meaning = Literal["visible", "hidden"]

_CAUSE = (
    "Usually libraries that disagree on True (scaled_dot_product_attention: seen; nn.MultiheadAttention: "
    "hidden), a mask in the wrong place of a call, or a finite mask value: look at where the mask is turned "
    "into numbers"
)


@checked("polarity", do="Pass a callable that takes q, k, v and a mask [1 1 query key]")
def polarity(
    attend: Attend,
    *,
    true_means: Meaning = "visible",
    heads: int = 2,
    head_dim: int = 16,
    lengths: tuple[int, ...] = (3, 5, 8),
    strongest: float = 20_000.0,
    dtype: torch.dtype = torch.float32,
) -> Report:
    """A mask that shows each query one key makes it read that value alone, whatever the scores.

    ``attend(q, k, v, mask)`` gets a boolean mask ``[1 1 query key]`` in which True means what is claimed. A
    second try gives the visible key a score of minus ``strongest``, against which a small mask value hides
    nothing.

    >>> from torch.nn.functional import scaled_dot_product_attention as attend
    >>> from headwise.check import polarity
    >>> polarity(attend).verdict
    'holds'
    >>> polarity(attend, true_means="hidden").failing
    'True shows instead of hiding: query 0 of 3 reads the hidden key 2 with weight 0.8'
    """
    tried = (
        f"masks that show one key, of {', '.join(map(str, lengths))}; and one with a score of {-strongest:,g}"
    )
    largest = (0.0, 0.0)
    for length in lengths:
        shown = torch.arange(1, length + 1) % length
        generator = torch.Generator().manual_seed(0)
        q, k = torch.randn(2, 1, heads, length, head_dim, generator=generator).to(dtype)
        weights = _weights(attend, q, k, shown, true_means)
        worst, limit, failing = _judge(weights, shown)
        if not worst <= limit:
            failing = f"{_words(attend, q, k, weights, shown, true_means)}: {failing}"
            return judged("polarity", worst, limit, tried=tried, failing=failing, cause=_CAUSE)
        largest = max(largest, (worst, limit))
    q, k, shown = _strong(lengths[0], heads, head_dim, strongest, dtype)
    worst, limit, failing = _judge(_weights(attend, q, k, shown, true_means), shown)
    failing = f"the mask hides too little beside a visible score of {-strongest:,g}: {failing}"
    largest = max(largest, (worst, limit))
    return judged("polarity", *largest, tried=tried, failing=failing, cause=_CAUSE)


def _weights(attend: Attend, q: Tensor, k: Tensor, shown: Tensor, true_means: Meaning) -> Tensor:
    """How much each query of each head reads of each key, where query i may see key ``shown[i]`` alone."""
    length = len(shown)
    mask = torch.eye(length, dtype=torch.bool)[shown][None, None]
    v = torch.eye(length, q.shape[-1], dtype=q.dtype).expand_as(k)
    output = ask(attend, q, k, v, mask if true_means == "visible" else ~mask, shape=q.shape)
    return output.detach()[0, ..., :length]


def _strong(
    length: int, heads: int, head_dim: int, score: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries that match the one key they may see that much worse than all others."""
    q = torch.zeros(1, heads, length, head_dim, dtype=dtype)
    q[..., 0] = (score * head_dim**0.5) ** 0.5
    k = torch.zeros_like(q)
    k[:, :, 0] = -q[:, :, 0]
    return q, k, torch.zeros(length, dtype=torch.long)


def _judge(weights: Tensor, shown: Tensor) -> tuple[float, float, str]:
    length = len(shown)
    apart = distance(weights, torch.eye(length, dtype=weights.dtype)[shown].expand_as(weights))
    worst, (head, query, _) = place(apart)
    row = weights[head, query].double()
    if row.isnan().any():
        return worst, 0.0, f"query {query} of {length} gets not-a-number"
    hidden = row.clone()
    hidden[shown[query]] = 0
    key = int(hidden.abs().argmax())
    words = f"query {query} of {length} reads the hidden key {key} with weight {float(row[key]):.2g}"
    if not hidden.any():
        words = f"query {query} of {length} reads its one key with weight {float(row[shown[query]]):.2g}"
    return worst, same_kernels(torch.ones(1, dtype=weights.dtype)), words


def _words(attend: Attend, q: Tensor, k: Tensor, weights: Tensor, shown: Tensor, true_means: Meaning) -> str:
    """What kind of mistake the weights show."""
    length, small = len(shown), 1e-3
    each = torch.arange(length)
    back = torch.empty_like(shown)
    back[shown] = each
    if float(weights[:, each, shown].abs().max()) < small:
        if float((weights[:, each, back] - 1).abs().max()) < small:
            return "the mask's axes are swapped"
        return "True hides instead of showing" if true_means == "visible" else "True shows instead of hiding"
    v = torch.eye(length, q.shape[-1], dtype=q.dtype).expand_as(k)
    everything = torch.ones(1, 1, length, length, dtype=torch.bool)
    unmasked = ask(attend, q, k, v, everything if true_means == "visible" else ~everything, shape=q.shape)
    if float(distance(unmasked[0, ..., :length], weights).max()) < small:
        return "the mask has no effect"
    return "the mask does something else"
