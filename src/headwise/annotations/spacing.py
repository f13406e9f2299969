"""One text of words, written so that a tokenizer can keep the words apart."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.annotations.annotated_text import Word


def written(forms: Iterable[tuple[str, bool]]) -> tuple[str, tuple[Word, ...]]:
    """The text of these words, each with whether a space follows it, and where each stands in the text.

    A space is put in where a letter or digit would touch a letter or digit, as in ``do`` ``n't``: many
    tokenizers read ``don't`` in pieces that are neither word, and ``cannot`` in one piece, so one of the
    words would have no token.

    >>> written([("It", False), ("'s", True), ("can", False), ("not", False), (".", False)])[0]
    "It's can not."
    """
    text, words, glued = "", [], True
    for form, space_after in forms:
        if not glued or (text[-1:].isalnum() and form[:1].isalnum()):
            text += " "
        words.append(Word(form, len(text), len(text) + len(form)))
        text += form
        glued = not space_after
    return text, tuple(words)
