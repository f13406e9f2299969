"""Tokens as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.models import EncodedText

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BROKEN = "\ufffd"  # what a piece of a letter decodes to
_SPACE = "\u2581"  # SentencePiece's sign for a space before a word
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def readable_tokens(text: str, encoded: EncodedText, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Each token as text: with the space that belongs to it, ``##`` where a word goes on, ``[SEP]`` as it is.

    A token that is only part of a letter reads as that letter.
    """
    numbers: list[int] = encoded.inputs["input_ids"][0].tolist()
    decoded = {number: str(tokenizer.decode([number])) for number in set(numbers)}
    return [
        _readable(decoded[number], token, text[start:stop])
        for number, token, (start, stop) in zip(numbers, encoded.tokens, encoded.spans, strict=True)
    ]


def _readable(decoded: str, token: str, piece: str) -> str:
    if _BROKEN in decoded:
        return piece or token
    return f" {decoded}" if token.startswith(_SPACE) and not decoded.startswith(" ") else decoded


def visible(piece: str, most: int | None = None) -> str:
    """A token's text on one line, with every control character spelled out, cut where it is too long.

    >>> visible("a\\nb"), visible("incomprehensible", most=6)
    ('a\\\\nb', 'incom~')
    """
    shown = "".join(
        _NAMES.get(letter, letter if letter.isprintable() else f"\\x{ord(letter):02x}") for letter in piece
    )
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}~"


def quoted(piece: str, most: int | None = None) -> str:
    """The same in quotes, so that its spaces are seen.

    >>> quoted(" cat")
    '" cat"'
    """
    return f'"{visible(piece, None if most is None else max(1, most - 2))}"'
