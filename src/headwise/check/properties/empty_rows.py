"""What does a query get that sees no key, and does it harm the others?"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from headwise.check.asking import ask, checked
from headwise.check.comparing import distance, place
from headwise.check.properties.scale import Attend
from headwise.check.report import Report, judged
from headwise.check.rounding import other_kernels, same_kernels

Policy = Literal["zeros", "mean", "finite"]

_CAUSE = (
    "Usually a softmax over nothing but minus infinity, which is 0 / 0, or a mask of finite numbers, which "
    "makes such a query read every key: set the weights of these rows to 0 before they meet the values, and "
    "watch the backward pass, where 0 times not-a-number stays not-a-number"
)
_DO = "Pass a callable that takes q, k, v and a mask [batch 1 query key], True where a key is seen"
_BATCH, _LENGTH = 2, 5


class _Found(NamedTuple):
    worst: float
    limit: float
    words: str


@checked("empty_rows", do=_DO)
def empty_rows(
    attend: Attend,
    *,
    policy: Policy = "zeros",
    true_means: Literal["visible", "hidden"] = "visible",
    heads: int = 2,
    head_dim: int = 8,
    dtype: torch.dtype = torch.float32,
) -> Report:
    """A query that sees no key gets what the policy says, forward and backward, and disturbs no other query.

    ``attend(q, k, v, mask)`` gets a boolean mask ``[batch 1 query key]``: one row empty, a causal mask over
    left padding, every row empty. Policies: "zeros" (and no gradient), "mean" (of all values), "finite"
    (anything but not-a-number or infinity). What the other queries get, and their gradients, must be as if
    the empty rows saw every key.

    >>> from headwise.check import empty_rows
    >>> def attend(q, k, v, mask):
    ...     return (q @ k.mT).masked_fill(~mask, -torch.inf).softmax(-1) @ v
    >>> empty_rows(attend).failing
    'with one query that sees no key, query 2 of batch row 0 gets not-a-number, not zeros'
    """
    tried = f"one query of {_LENGTH}, causal over left padding, every query; forward and backward"
    found: list[_Found] = []
    for words, visible in _masks().items():
        case = _examine(attend, visible, policy, true_means, heads, head_dim, dtype)
        found += [one._replace(words=f"with {words}, {one.words}") for one in case]
    bad = (one for one in found if not one.worst <= one.limit)
    worst, limit, failing = next(bad, max(found))
    return judged("empty_rows", worst, limit, tried=tried, failing=failing, cause=_CAUSE)


def _masks() -> dict[str, Tensor]:
    one = torch.ones(_BATCH, 1, _LENGTH, _LENGTH, dtype=torch.bool)
    one[0, :, 2] = False
    padded = torch.ones(_LENGTH, _LENGTH, dtype=torch.bool).tril().repeat(_BATCH, 1, 1, 1)
    padded[1, :, :, :2] = False
    return {
        "one query that sees no key": one,
        "a causal mask over 2 places of left padding": padded,
        "no query that sees a key": torch.zeros_like(one),
    }


def _examine(
    attend: Attend,
    visible: Tensor,
    policy: Policy,
    true_means: str,
    heads: int,
    head_dim: int,
    dtype: torch.dtype,
) -> list[_Found]:
    empty = ~visible.any(-1, keepdim=True)  # [batch 1 query 1]
    shape = (_BATCH, heads, _LENGTH, head_dim)
    q, k, v, mixture = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    seen, filled = visible, visible | empty
    if true_means == "hidden":
        seen, filled = ~seen, ~filled
    output, gradients = _run(attend, q, k, v, seen, mixture)
    right, right_gradients = _run(attend, q, k, v, filled, mixture * ~empty)
    found = [_of_empty(output, v, empty, policy), _of_others(output, right, empty)]
    pairs = zip("qkv", gradients, right_gradients, strict=False)
    return found + [_backward(name, got, want, empty, policy) for name, got, want in pairs]


_NAMES = {"zeros": "zeros", "mean": "the mean of the values", "finite": "a finite number"}


def _of_empty(output: Tensor, v: Tensor, empty: Tensor, policy: Policy) -> _Found:
    """What queries get that see nothing."""
    finite = torch.where(output.isfinite(), output, torch.zeros_like(output))
    mean = v.mean(-2, keepdim=True).expand_as(v)
    want = {"zeros": torch.zeros_like(v), "mean": mean, "finite": finite}[policy]
    limit = other_kernels(v, terms=_LENGTH) if policy == "mean" else same_kernels(v)
    worst, where = place(distance(output, want).masked_fill(~empty, 0.0))
    got = f"gets {_said(output[where])}, not {_NAMES[policy]}"
    return _Found(worst, limit, f"query {where[2]} of batch row {where[0]} {got}")


def _of_others(output: Tensor, right: Tensor, empty: Tensor) -> _Found:
    worst, where = place(distance(output, right).masked_fill(empty, 0.0))
    got = "not-a-number" if output[where].isnan() else f"an answer that is {worst:.2g} off"
    words = f"query {where[2]} of batch row {where[0]}, which sees keys, gets {got}"
    return _Found(worst, other_kernels(right, terms=right.shape[-1]), words)


def _backward(name: str, got: Tensor, want: Tensor, empty: Tensor, policy: Policy) -> _Found:
    """Gradients are finite; those of q at other queries are untouched, and with zeros so are all."""
    at = "the gradient of {} at place {} of batch row {}"
    if not got.isfinite().all():
        _, where = place((~got.isfinite()).double())
        return _Found(torch.inf, 0.0, f"{at.format(name, where[2], where[0])} is {_said(got[where])}")
    apart = distance(got, want)
    if policy != "zeros":
        apart = apart.masked_fill(empty, 0.0) if name == "q" else torch.zeros_like(apart)
    worst, where = place(apart)
    # sums of products of order 1, on which the size of a gradient that cancels says nothing
    limit = max(other_kernels(x, terms=got.shape[-1]) for x in (got, want, torch.ones_like(got)))
    return _Found(worst, limit, f"{at.format(name, where[2], where[0])} is {worst:.2g} off")


def _run(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, mixture: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The output, and the gradients of a mixture of its numbers by q, k and v, if there are any."""
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    with torch.enable_grad():
        output = ask(attend, *leaves, mask, shape=v.shape)
        if not output.requires_grad:
            return output, []
        loss = (output * mixture).sum()
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return output.detach(), [
        torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)
    ]


def _said(number: Tensor) -> str:
    return "not-a-number" if number.isnan() else f"{float(number):.2g}"
