"""What a head of a model is called: by the number of its layer, or by the layer's name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headwise.core import HeadwiseError

_BY_NUMBER = re.compile(r"([0-9]+)\.([0-9]+)")
_BY_NAME = re.compile(r"([^\s:]*):([0-9]+)")


@dataclass(frozen=True)
class Head:
    """One query head of one attention layer.

    ``layer`` is the number of the layer, counted from 0 in the order in which the model's attention layers
    are first called, or its name, ``AttentionCall.layer``: ``encoder.layer.0.attention``, or ``shared#3`` for
    the fourth call of a module in one pass. Text is ``3.5`` or ``encoder.layer.0.attention:5``.

    >>> print(Head(3, 5), Head("encoder.shared#3", 5))
    3.5 encoder.shared#3:5
    >>> Head.parse("3.5") == Head(3, 5), Head.parse("3:5") == Head("3", 5)
    (True, True)
    """

    layer: int | str
    head: int

    def __post_init__(self) -> None:
        named = isinstance(self.layer, str) and not re.search(r"[\s:]", self.layer)
        if not (named or _counts(self.layer)) or not _counts(self.head):
            raise _refused((self.layer, self.head))

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head that a text names. Raises HeadwiseError if it names none."""
        by_number, by_name = _BY_NUMBER.fullmatch(text.strip()), _BY_NAME.fullmatch(text.strip())
        if by_number:
            return cls(int(by_number[1]), int(by_number[2]))
        if by_name:
            return cls(by_name[1], int(by_name[2]))
        raise _refused(text)

    def __str__(self) -> str:
        return f"{self.layer}{':' if isinstance(self.layer, str) else '.'}{self.head}"


HeadLike = Head | str | tuple[int | str, int]


def as_heads(heads: HeadLike | Iterable[HeadLike]) -> tuple[Head, ...]:
    """Heads from what a caller may call them, each once: a Head, a text, a pair, or any number of those.

    >>> [str(head) for head in as_heads(["3.5", (3, 5), Head("attn", 0)])]
    ['3.5', 'attn:0']
    """
    if isinstance(heads, (Head, str)) or (isinstance(heads, tuple) and _is_pair(heads)):
        heads = [heads]
    if not isinstance(heads, Iterable):
        raise _refused(heads)
    return tuple(dict.fromkeys(_as_head(head) for head in heads))


def _as_head(head: object) -> Head:
    if isinstance(head, Head):
        return head
    if isinstance(head, str):
        return Head.parse(head)
    if isinstance(head, tuple) and _is_pair(head):
        return Head(*head)
    raise _refused(head)


def _is_pair(pair: tuple[object, ...]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], (int, str)) and isinstance(pair[1], int)


def _counts(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _refused(got: object) -> HeadwiseError:
    return HeadwiseError(
        who="head",
        what="a head",
        expected="a layer and a number from 0, as 3.5, (3, 5) or encoder.layer.0.attention:5",
        got=repr(got),
        why="Before the dot stands the number of a layer, before the colon its name",
        do="Count layers from 0 in the order in which they run",
    )
