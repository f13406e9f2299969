"""Does an answer depend on what was asked before?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.check.asking import CannotBeCheckedError, MisbehavedError, asked, checked, made
from headwise.check.comparing import Finding, first_failing, reported, worst
from headwise.check.influence import SequenceFunction
from headwise.check.inputs import Inputs
from headwise.check.report import Report
from headwise.check.rounding import same_share

Maker = Callable[[], SequenceFunction]

_CAUSE = (
    "Usually a table, an offset or a length kept between calls, under a key that leaves out what it depends "
    "on (length, dtype, base, offset), or kept for all instances: look at what a call writes to self, to a "
    "module or to a default argument"
)


class Story(NamedTuple):
    """What is asked before the question, each as (rows, places), and how to say it."""

    words: str
    before: tuple[tuple[int, int], ...]


@checked("history")
def history(
    f: SequenceFunction,
    inputs: Inputs,
    fresh: Maker | None = None,
    *,
    others: Sequence[Maker] = (),
    lengths: tuple[int, ...] = (3, 12, 33),
) -> Report:
    """The same input gives the same answer, whatever was asked before.

    Asked again, after longer and shorter inputs, after another batch and another dtype (where ``f`` takes
    one), it must answer as it first did, and leave its input alone. ``fresh`` makes another instance like
    ``f``: each question is then asked of a new one, which shows a state from before the first answer.
    ``others`` make instances with other settings and the same weights: they must neither change the answers
    of ``f`` nor give the same ones.

    >>> from headwise.check import Vectors, history
    >>> history(lambda x: x.cumsum(1), Vectors(4)).verdict
    'holds'
    >>> def f(x, longest=[0]):
    ...     longest[0] = max(longest[0], x.shape[1])
    ...     return x / longest[0]
    >>> print(history(f, Vectors(4)).failing)
    the output at 2 of 3 changes by 0.91 of the largest output after a call with 33 places
    """
    if not lengths:
        raise CannotBeCheckedError("there is no length to try", "Pass lengths=(3, 12), for example")
    asking = _Asking(f, inputs, fresh, tuple(sorted(lengths)))
    found = first_failing(asking.findings(others))
    tried = f"{', '.join(map(str, lengths))} places again, after longer and shorter inputs and other batches"
    if asking.dtypes:
        tried += f", after {' and '.join(asking.dtypes)}"
    if others:
        tried += f", and beside {len(others)} instance{'s' * (len(others) > 1)} with other settings"
    return reported("history", found, tried=tried, cause=_CAUSE)


class _Asking:
    """Asks one thing many questions, and compares with its first answers."""

    def __init__(
        self, f: SequenceFunction, inputs: Inputs, fresh: Maker | None, lengths: tuple[int, ...]
    ) -> None:
        self.f, self.inputs, self.fresh, self.lengths = f, inputs, fresh, lengths
        self.answers: dict[int, Tensor] = {}
        self.dtypes: list[str] = []

    def findings(self, others: Sequence[Maker]) -> Iterator[Finding]:
        """From the simplest story to the longest."""
        for length in self.lengths:
            instance = self.instance()
            yield self._first_asked(instance, length)
            yield self.compared(instance, length, "when it is asked a second time")
        if self.fresh is not None:
            yield self.compared(self.f, self.lengths[0], "from a fresh one to this one")
        for length in self.lengths:
            yield from (self._after(story, length) for story in _stories(self.lengths, length))
            yield from (self._after_dtype(dtype, length) for dtype in self._other_dtypes())
        yield from (finding for maker in others for finding in self._beside(maker))

    def instance(self) -> SequenceFunction:
        return self.f if self.fresh is None else made(self.fresh, "fresh()")

    def question(self, length: int) -> Tensor:
        return self.inputs.make(2, length, seed=0)

    def _first_asked(self, instance: SequenceFunction, length: int) -> Finding:
        """Keeps the answer, and finds whether the call leaves its input alone."""
        taken: list[Tensor] = []

        def watched(x: Tensor) -> Tensor:
            taken.append(x)
            return instance(x)

        question = self.question(length)
        self.answers[length] = asked(watched, question)
        changed = not torch.equal(taken[0], question)
        return Finding(torch.inf if changed else 0.0, 0.0, "a call changes its own input")

    def compared(self, instance: SequenceFunction, length: int, words: str) -> Finding:
        x, answer = self.question(length), self.answers[length]
        try:
            change = worst(answer, asked(instance, x, finite=False))
        except MisbehavedError as error:
            return Finding(torch.inf, 0.0, f"{error.why}, {words}")
        said = f"the output at {change.place} of {length} {change.words} {words}"
        return Finding(change.share, same_share(self.inputs, x, answer), said)

    def _after(self, story: Story, length: int) -> Finding:
        instance = self.instance()
        for rows, places in story.before:
            asked(instance, self.inputs.make(rows, places, seed=1), finite=False)
        return self.compared(instance, length, f"after {story.words}")

    def _other_dtypes(self) -> list[torch.dtype]:
        x = self.question(1)
        floats = (torch.bfloat16, torch.float32, torch.float64)
        return [dtype for dtype in floats if dtype != x.dtype] if x.is_floating_point() else []

    def _after_dtype(self, dtype: torch.dtype, length: int) -> Finding:
        instance, name = self.instance(), str(dtype).removeprefix("torch.")
        try:
            asked(instance, self.inputs.make(2, length, seed=1).to(dtype), finite=False)
        except MisbehavedError:
            return Finding(0.0, 0.0, "")  # it takes one dtype only
        if name not in self.dtypes:
            self.dtypes.append(name)
        return self.compared(instance, length, f"after a call in {name}")

    def _beside(self, maker: Maker) -> Iterator[Finding]:
        other = made(maker, "a maker in others")
        theirs = {length: asked(other, self.question(length)) for length in self.lengths}
        for length in self.lengths:
            words = "after an instance with other settings was asked"
            yield self.compared(self.instance(), length, words)
        longest = self.lengths[-1]
        if torch.equal(theirs[longest], self.answers[longest]):
            words = f"an instance with other settings gives the same answer to {longest} places"
            yield Finding(torch.inf, 0.0, words)


def _stories(lengths: tuple[int, ...], length: int) -> list[Story]:
    stories = [
        Story(f"a call with {other} places", ((2, other),)) for other in lengths[::-1] if other != length
    ]
    if len(lengths) > 1:
        long, short = lengths[-1], lengths[0]
        stories.append(Story(f"calls with {long} and {short} places", ((2, long), (2, short))))
    return [*stories, Story("a call with 5 rows", ((5, length),)), Story("a call with 1 row", ((1, length),))]
