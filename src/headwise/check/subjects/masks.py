"""Finds out how a mask is passed and what True means in it, by watching which inputs reach which outputs.

Nothing is taken from an argument's name: a form counts only if the pattern of influence is exactly the one
that it should give, and no other meaning explains that pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.check.inputs import Inputs
from headwise.check.subjects.signature import Thing
from headwise.check.subjects.subject import LENGTH
from headwise.core.masks import Explicit, Padding

# whatever is seen or hidden, and causal too, some key has a reader; LENGTH of each
_KEEP = (True, True, False, True, False, True)
_PAIRS = (
    (1, 0, 1, 0, 1, 1),
    (1, 1, 0, 1, 0, 1),
    (0, 1, 1, 1, 1, 0),
    (1, 0, 0, 1, 0, 1),
    (0, 1, 0, 1, 1, 1),
    (1, 0, 1, 0, 0, 1),
)

WithMask = Callable[[Tensor, Any], Tensor]
"""``f(x, mask)``, where the mask goes to the argument that is looked at."""


@dataclass(frozen=True)
class Form:
    """One way to write a mask: which axes it has, and what its entries are."""

    axes: str
    entries: str

    @property
    def pairs(self) -> bool:
        """Whether it says for each query and key whether they meet, and not only which keys are real."""
        return "query" in self.axes and self.axes != "object"

    @property
    def words(self) -> str:
        """The form in words."""
        if self.axes == "object":
            return "a mask object"
        return f"{self.axes}, {_MEANINGS[self.entries]}"

    def write(
        self, seen: Bool[Tensor, "batch length"] | Bool[Tensor, "batch query key"], queries: int
    ) -> Thing:
        """The mask that shows these keys to all queries, or these pairs.

        >>> Form("[batch key]", "hidden").write(torch.tensor([[True, False]]), queries=2)
        tensor([[False,  True]])
        """
        if self.axes == "object":
            return Padding(seen) if seen.dim() == 2 else Explicit(seen[:, None])
        if self.axes == "[batch key]":
            return _entries(seen, self.entries)
        if self.axes == "[batch 1 1 key]":
            return _entries(seen[:, None, None], self.entries)
        pairs = seen if seen.dim() == 3 else seen[:, None].expand(-1, queries, -1)
        if self.axes == "[batch 1 query key]":
            return _entries(pairs[:, None], self.entries)
        return _entries(pairs if self.axes == "[batch query key]" else pairs[0], self.entries)


_MEANINGS = {
    "visible": "True shows",
    "hidden": "True hides",
    "added": "numbers that are added to the scores",
    "numbers": "1 shows",
}
_AXES = ("[batch key]", "[batch 1 1 key]", "[batch 1 query key]", "[batch query key]", "[query key]")
FORMS = tuple(Form(axes, entries) for entries in _MEANINGS for axes in _AXES)
OBJECT = Form("object", "visible")


@dataclass(frozen=True)
class Probe:
    """What came of trying: the form that is understood, or whether any was taken and changed something."""

    form: Form | None = None
    taken: bool = False
    changes: bool = False


def probe(f: Callable[[Tensor], Tensor], masked: WithMask, inputs: Inputs, *, objects: bool = False) -> Probe:
    """Which form of mask ``masked`` understands, beside ``f`` without a mask.

    >>> from headwise.check.inputs import Vectors
    >>> def hides(x, mask):
    ...     return x + (x * ~mask[..., None]).sum(1, keepdim=True)
    >>> probe(lambda x: x + x.sum(1, keepdim=True), hides, Vectors(4)).form
    Form(axes='[batch key]', entries='hidden')
    """
    x = inputs.make(2, LENGTH, seed=0)
    base = reach(f, inputs, x)
    if base is None:
        return Probe()
    plain, taken, changed = f(x), False, False
    for form in (*((OBJECT,) if objects else ()), *FORMS):
        seen = torch.tensor(_PAIRS).bool() if form.pairs else torch.tensor(_KEEP)
        mask = form.write(seen.expand(2, *seen.shape), LENGTH)
        try:
            output = masked(x, mask)
        except Exception:
            continue
        if output.shape != plain.shape:
            continue
        taken, changed = True, changed or not torch.equal(output.nan_to_num(7.0), plain.nan_to_num(7.0))
        found = reach(lambda x, mask=mask: masked(x, mask), inputs, x)  # type: ignore[misc]
        if found is not None and _explained(found, seen, base):
            return Probe(form, taken=True, changes=True)
    return Probe(None, taken, changed)


@torch.no_grad()
def reach(f: Callable[[Tensor], Tensor], inputs: Inputs, x: Tensor) -> Bool[Tensor, "output input"] | None:
    """Which inputs reach which other outputs; None if it raises."""
    length, columns = x.shape[1], []
    try:
        before = f(x)
        for place in range(length):
            where = torch.zeros(x.shape[:2], dtype=torch.bool)
            where[:, place] = True
            after = f(inputs.replace(x, where, 1))
            apart = (after - before).float().abs().nan_to_num(nan=0.0)
            columns.append(apart.movedim(1, 0).flatten(1).amax(1) > 0)
    except Exception:
        return None
    return torch.stack(columns, dim=1) & ~torch.eye(length, dtype=torch.bool)


def _explained(found: Bool[Tensor, "output input"], seen: Tensor, base: Bool[Tensor, "output input"]) -> bool:
    """Whether these pairs, seen through one to four layers, give exactly that influence."""
    if seen.dim() == 1:
        real = base & seen
        inside = real & seen[:, None]  # some modules give pads nothing, and what is not seen needs no reader
        return not bool((found & ~real).any()) and bool(found[inside].all()) and bool(found.any())
    off = ~torch.eye(len(seen), dtype=torch.bool)
    step = (base & seen) | ~off
    many, allowed = step, []
    for _ in range(4):
        allowed.append(many & off)
        many = (many.float() @ step.float()) > 0
    return any(torch.equal(found, each) for each in allowed)


def _entries(seen: Tensor, entries: str) -> Tensor:
    if entries == "visible":
        return seen
    if entries == "hidden":
        return ~seen
    if entries == "numbers":
        return seen.long()
    return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)
