"""Exactly which keys reach a query?"""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.check.asking import asked, checked, refuse_unsteady
from headwise.check.comparing import Finding, reported, shortest
from headwise.check.influence import SequenceFunction, gradients, influence
from headwise.check.inputs import Inputs
from headwise.check.report import Report
from headwise.check.rounding import largest, same_share
from headwise.core.shapes import check_positive

_CAUSE = (
    "Usually a window counted with and without the query itself, < where <= is meant or the other way round, "
    "or a window that looks both ways: write down which differences i - j may be seen, and compare with the "
    "mask"
)


@checked("receptive field")
def receptive_field(
    f: SequenceFunction,
    inputs: Inputs,
    *,
    window: int | None = None,
    causal: bool = True,
    depth: int = 1,
    lengths: tuple[int, ...] | None = None,
) -> Report:
    """The keys that reach a query are exactly those claimed.

    ``window`` counts keys, the query's own included: ``0 <= i - j < window``, or ``|i - j| < window`` without
    ``causal``; no window means all keys, or all up to the query. Through ``depth`` layers a window of W
    reaches ``depth * (W - 1) + 1`` keys. Raises HeadwiseError if window or depth is below 1.

    A key reaches a query if another input there changes the output, or its gradient is not zero. That a
    query sees its own key does not show this way, since the query itself changes.

    >>> from headwise.check import Vectors, receptive_field
    >>> f = lambda x: x + x.roll(1, dims=1).index_fill(1, torch.tensor([0]), 0.0)
    >>> receptive_field(f, Vectors(4), window=2).verdict
    'holds'
    >>> print(receptive_field(f, Vectors(4), window=3).failing)
    queries see 2 keys, 3 were claimed: the input at 0 does not reach the output at 2, of 3
    """
    if window is not None:
        check_positive(window, who="receptive_field", what="window")
    check_positive(depth, who="receptive_field", what="depth")
    reach = None if window is None else depth * (window - 1) + 1
    lengths = _lengths(reach) if lengths is None else lengths
    tried = f"every input replaced, one at a time, at {', '.join(map(str, lengths))} places"
    found = shortest(partial(_attempt, f, inputs, reach, causal), lengths)
    if found.fails:
        true = _seen(f, inputs, max(lengths))[0]
        said = f"{_in_words(true)}, {_claim(reach, causal)} claimed: {found.words}"
        found = found._replace(words=said)
    return reported("receptive field", found, tried=tried, cause=_CAUSE)


def _lengths(reach: int | None) -> tuple[int, ...]:
    return (1, 2, 3, 5, 12) if reach is None else tuple(sorted({1, 2, reach, reach + 1, 2 * reach + 3}))


def _claimed(reach: int | None, causal: bool, length: int) -> Bool[Tensor, "output input"]:
    back = torch.arange(length)[:, None] - torch.arange(length)
    near = back.abs() < (length if reach is None else reach)
    return near & (back >= 0) if causal else near


def _attempt(f: SequenceFunction, inputs: Inputs, reach: int | None, causal: bool, length: int) -> Finding:
    seen, change, limit = _seen(f, inputs, length)
    claimed = _claimed(reach, causal, length)
    extra = change.masked_fill(claimed, 0.0)
    share, (output, place) = float(extra.max()), divmod(int(extra.argmax()), length)
    if share > limit:
        refuse_unsteady(f, inputs.make(4, length, seed=0))
        words = (
            f"the output at {output} changes by {share:.2g} of the largest output with the input at {place}"
        )
        return Finding(share, limit, f"{words}, of {length}")
    missing = claimed & ~seen
    if bool(missing.any()):
        output, place = (int(i) for i in missing.nonzero()[0])
        words = f"the input at {place} does not reach the output at {output}, of {length}"
        return Finding(torch.inf, limit, words)
    return Finding(share, limit, "")


def _seen(
    f: SequenceFunction, inputs: Inputs, length: int
) -> tuple[Bool[Tensor, "output input"], Float[Tensor, "output input"], float]:
    """Which inputs reach which outputs at all, how far as a share, and how far rounding goes."""
    x = inputs.make(4, length, seed=0)
    output = asked(f, x)
    limit = same_share(inputs, x, output)
    change = influence(partial(asked, f), inputs, length=length, batch=4) / (largest(output) or 1.0)
    seen = change > 0
    if x.is_floating_point():  # what has little weight moves nothing in low precision, yet has a slope
        slopes = gradients(f, x)
        slopes = slopes / (float(slopes.max()) or 1.0)
        seen, change = seen | (slopes > 0), torch.maximum(change, slopes)
    return seen, change, limit


def _claim(reach: int | None, causal: bool) -> str:
    if reach is None:
        return "all up to their own were" if causal else "all were"
    if causal:
        return f"{reach} {'was' if reach == 1 else 'were'}"
    return f"{2 * reach - 1} ({reach - 1} on each side) were"


def _in_words(seen: Bool[Tensor, "output input"]) -> str:
    """The true set, as a window if it is one.

    >>> _in_words(torch.ones(4, 4).tril().triu(-1).bool()), _in_words(torch.ones(4, 4).tril().bool())
    ('queries see 2 keys', 'queries see all keys up to their own')
    """
    length = seen.shape[0]
    difference = (torch.arange(length)[:, None] - torch.arange(length))[seen]
    if not difference.numel():
        return "queries see no key"
    back, ahead = int(difference.max()), -int(difference.min())
    ahead = max(ahead, 0)
    if not bool(_window(length, back, ahead)[~seen].any()):
        if back == length - 1:
            return (
                "queries see all keys"
                if ahead == length - 1
                else _and_ahead("queries see all keys up to their own", ahead)
            )
        if not ahead:
            return f"queries see {back + 1} key{'s' * (back > 0)}"
        return f"queries see {back + 1 + ahead} keys ({back} before them and {ahead} after)"
    last = ", ".join(map(str, seen[-1].nonzero().flatten().tolist()))
    return f"the query at {length - 1} sees keys {last}"


def _and_ahead(words: str, ahead: int) -> str:
    return f"{words} and {ahead} after" if ahead else words


def _window(length: int, back: int, ahead: int) -> Bool[Tensor, "output input"]:
    difference = torch.arange(length)[:, None] - torch.arange(length)
    return (difference <= back) & (difference >= -ahead)


def field_in_words(f: SequenceFunction, inputs: Inputs, length: int) -> str:
    """Which keys reach a query, as they are found.

    >>> from headwise.check.inputs import Vectors
    >>> field_in_words(lambda x: x.cumsum(1), Vectors(4), length=5)
    'queries see all keys up to their own'
    """
    return _in_words(_seen(f, inputs, length)[0])
