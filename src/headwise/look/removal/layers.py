"""The attention layers of a model in the order in which they are first called."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.core import HeadwiseError
from headwise.look.calls.call import AttentionCall
from headwise.look.removal.head import Head, HeadLike, as_heads

_MOST_NAMED = 6


class Layers:
    """Names and numbers of the layers that were called, and how many heads each has.

    >>> layers, x = Layers(), torch.zeros(1, 2, 3, 4)
    >>> layers.note(AttentionCall(x, x, x, x, scale=1.0, module="attn"))
    0
    >>> layers.find(Head("attn", 1), who="ablate"), layers.find(Head(0, 1), who="ablate")
    (('attn', 1), ('attn', 1))
    """

    def __init__(self) -> None:
        self.heads: dict[str, int] = {}
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Every layer's name, in order."""
        return tuple(self.heads)

    def note(self, call: AttentionCall) -> int:
        """The number of the call's layer, a new one if it is called for the first time."""
        self.heads.setdefault(call.layer, call.heads)
        return self._numbers.setdefault(call.layer, len(self._numbers))

    def find(self, head: Head, *, who: str) -> tuple[str, int]:
        """The name of a head's layer, and the head. Raises HeadwiseError if there is no such one."""
        names = self.names
        by_number = isinstance(head.layer, int) and head.layer < len(names)
        name = names[int(head.layer)] if by_number else str(head.layer)
        if not by_number and (isinstance(head.layer, int) or name not in self.heads):
            raise HeadwiseError(
                who=who,
                what=f"the layer of head {head}",
                expected="one that made an attention call while it was watched",
                got=repr(head.layer),
                why=self._which(),
                do="Run the model inside the block, and name a layer that is seen there",
            )
        if head.head >= self.heads[name]:
            raise HeadwiseError(
                who=who,
                what=f"the head of {head}",
                expected=f"from 0 to {self.heads[name] - 1}",
                got=str(head.head),
                why=f"Layer {names.index(name)} ({name or 'the model'}) has {self.heads[name]} heads",
                do="Heads are query heads; count them from 0",
            )
        return name, head.head

    def all_of(self, heads: HeadLike | Iterable[HeadLike] | None, *, who: str) -> tuple[Head, ...]:
        """The heads by number: all of them for None. Raises HeadwiseError if one is not there.

        >>> Layers().all_of(None, who="importance")
        ()
        """
        if heads is None:
            return tuple(Head(at, head) for at, n in enumerate(self.heads.values()) for head in range(n))
        found = [self.find(head, who=who) for head in as_heads(heads)]
        return tuple(Head(self._numbers[name], head) for name, head in found)

    def check(self, heads: Iterable[Head], *, who: str) -> None:
        """Raise HeadwiseError if one of the heads is not there."""
        for head in heads:
            self.find(head, who=who)

    def _which(self) -> str:
        if not self.heads:
            return "There was no attention call at all"
        names = [f"{number} ({name or 'the model'})" for number, name in enumerate(self.heads)]
        if len(names) > _MOST_NAMED:
            names = [*names[: _MOST_NAMED // 2], "...", names[-1]]
        return f"Layers that made one are {', '.join(names)}"
