"""Properties as ready parameters for pytest: one test for each, with a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headwise.check import Checked, Claims, layer

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def properties(
    make: Callable[[], Any],
    *,
    expect: str | Iterable[str] | Claims = (),
    check: Callable[..., Checked] = layer,
    only: str | Iterable[str] = (),
    **options: Any,  # noqa: ANN401 - those of check.layer
) -> list[ParameterSet]:
    """One ``pytest.param`` for each property that applies to what ``make`` builds.

    Each holds a function without arguments that raises AssertionError, with the whole story, if the property
    fails. ``check`` is ``check.layer`` or ``check.model``, and the other arguments are theirs. The checks run
    once, when the list is made::

        from headwise import testing

        @pytest.mark.parametrize("holds", testing.properties(MyAttention, expect="causal"))
        def test_my_attention(holds):
            holds()

    Raises HeadwiseError if the layer cannot be called.

    >>> from headwise import testing
    >>> params = testing.properties(lambda: torch.nn.Linear(4, 4), only="batch causality")
    >>> [param.id for param in params]
    ['batch', 'causality']
    >>> for param in params:
    ...     param.values[0]()
    """
    import pytest

    checked = check(make(), expect=expect, only=only, **options)
    return [
        pytest.param(_Property(checked, outcome.name), id=outcome.name.replace(" ", "-"))
        for outcome in checked.outcomes
        if outcome.verdict != "not checked"
    ]


class _Property:
    """Raises if the property of that name fails."""

    def __init__(self, checked: Checked, name: str) -> None:
        self._checked, self._name = checked, name

    def __call__(self) -> None:
        for outcome in self._checked.failures:
            if outcome.name == self._name:
                outcome.report.raise_if_failed()

    def __repr__(self) -> str:
        return self._name
