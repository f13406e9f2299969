"""Every property that applies to a layer, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from headwise.check.checked import Checked
from headwise.check.claims import Claims
from headwise.check.inputs import Inputs
from headwise.check.recognise import conclude, quiet_evaluation, recognised, strengthened
from headwise.check.subjects.signature import Thing
from headwise.check.subjects.subject import copied
from headwise.check.suite import chosen


def layer(
    module: Thing,
    *,
    expect: str | Iterable[str] | Claims = (),
    call: Callable[..., Tensor] | None = None,
    inputs: Inputs | None = None,
    start: Callable[[Any], Callable[..., Tensor]] | None = None,
    make: Callable[[], Any] | None = None,
    only: str | Iterable[str] = (),
) -> Checked:
    """Check every property that applies to a layer or function, and say how it was called.

    Known are layers from ``[batch length width]`` to the same, with masks and positions by name; layers that
    take a query, keys and values; and attention on q, k, v ``[batch heads length head_dim]``. What True
    means in a mask is found out by trying, never guessed from its name.

    Args:
        module: the layer, in any mode; it is left as it is.
        expect: what you claim of it, such as ``"causal window=128"``, see `Claims`: a false claim fails.
        call: ``call(module, x)`` where it must be called in a way of its own; an argument ``keep`` (True for
            a real token) or ``positions`` is filled where it has one. Needs ``inputs``.
        inputs: what it takes, such as ``Vectors(64)``.
        start: ``start(module)`` gives a step of a cache: ``step(chunk)`` returns that chunk's outputs.
        make: makes another instance; with it saving, loading and the meta device are checked as well.
        only: names of the properties to check, all without it.

    Raises HeadwiseError if it cannot be called, or if a claim or a name is unknown.

    >>> from headwise import check
    >>> attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    >>> checked = check.layer(attention, expect="order-blind")
    >>> checked.passed
    True
    >>> print(checked.assumed[1])
    called as module(x, x, x, need_weights=False)
    """
    claims, names = Claims.read(expect), chosen(only)
    with quiet_evaluation(module):
        untouched = copied(module)  # before it is called to find out how
        subject = recognised(module, call=call, inputs=inputs, who="check.layer")
        subject.start, subject.make, subject.untouched = start, make, untouched
        return conclude({"": strengthened(subject)}, claims, names)
