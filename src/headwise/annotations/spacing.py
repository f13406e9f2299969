"""One text of words, written so that a tokenizer can keep the words apart."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.annotations.annotated_text import Word


def written(forms: Iterable[tuple[str, bool]]) -> tuple[str, tuple[Word, ...]]:
    """The text of these words, each with whether a space follows it, and where each stands in the text.

    A space is put in where two characters of one kind would touch: letter or digit against letter or digit,
    or mark against mark. Tokenizers cut between the kinds, but read ``do`` ``n't`` in pieces that are
    neither word, and ``can`` ``not`` or a full stop and a quotation mark in one piece, so one of the
    words would have no token.

    >>> written([("It", False), ("'s", True), ("can", False), ("not", False), (".", False), (")", False)])[0]
    "It's can not. )"
    """
    text, words, glued = "", [], True
    for form, space_after in forms:
        if text and (not glued or text[-1].isalnum() == form[:1].isalnum()):
            text += " "
        words.append(Word(form, len(text), len(text) + len(form)))
        text += form
        glued = not space_after
    return text, tuple(words)
