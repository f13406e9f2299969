"""What the owner of a layer or model says of it: words, which a check holds it to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive


@dataclass(frozen=True)
class Claims:
    """What is claimed of a layer or model; a claim that is false is a failure.

    - ``causal``: no output depends on a later input; ``bidirectional``: every output sees every input.
    - ``window``: the number of keys that reach a query, its own included.
    - ``order_blind``: permuting inputs permutes outputs; ``order_aware``: the order before it matters.
    - ``relative``: adding one number to all positions changes nothing.
    - ``left_padding``: pads at the front change nothing, though no positions are passed.
    - ``scaled``: scores are q . k / sqrt(head_dim); ``empty_zeros``: a query without a key gets zeros.

    >>> Claims.read("causal window=128") == Claims(causal=True, window=128)
    True
    """

    causal: bool = False
    bidirectional: bool = False
    window: int | None = None
    order_blind: bool = False
    order_aware: bool = False
    relative: bool = False
    left_padding: bool = False
    scaled: bool = False
    empty_zeros: bool = False

    @classmethod
    def read(cls, expect: str | Iterable[str] | Claims) -> Claims:
        """Claims from words such as ``"causal"`` and ``"window=128"``, alone, in a list or in one text.

        Raises HeadwiseError for a word that is no claim, or for two that exclude each other.

        >>> Claims.read(["order-aware"]).order_aware
        True
        """
        if isinstance(expect, Claims):
            return expect
        words = (
            expect.replace(",", " ").split() if isinstance(expect, str) else [str(word) for word in expect]
        )
        claims = cls()
        for word in words:
            claims = _with(claims, word)
        for one, other in (("causal", "bidirectional"), ("order_blind", "order_aware")):
            if getattr(claims, one) and getattr(claims, other):
                raise _bad_claim(f"{one} and {other}".replace("_", "-"), "They exclude each other")
        return claims

    @property
    def words(self) -> tuple[str, ...]:
        """The claims in words, as `read` takes them.

        >>> Claims(causal=True, window=4).words
        ('causal', 'window=4')
        """
        stated = [(name.replace("_", "-"), getattr(self, name)) for name in NAMES]
        return tuple(word if value is True else f"{word}={value}" for word, value in stated if value)


NAMES = tuple(field.name for field in fields(Claims))


def _with(claims: Claims, word: str) -> Claims:
    name, _, value = word.replace("-", "_").partition("=")
    if name == "window":
        number = int(value) if value.isdigit() else value or None
        check_positive(number, who="expect", what="window")
        return replace(claims, window=int(value))
    if name in NAMES and not value:
        return replace(claims, **{name: True})
    raise _bad_claim(repr(word), "Only what there is a property for can be checked")


def _bad_claim(got: str, why: str) -> HeadwiseError:
    known = [name.replace("_", "-") if name != "window" else "window=N" for name in NAMES]
    return HeadwiseError(
        who="expect",
        what="what is claimed",
        expected=f"of {', '.join(known)}",
        got=got,
        why=why,
        do="Leave a claim out to have the property reported as it is found",
    )
