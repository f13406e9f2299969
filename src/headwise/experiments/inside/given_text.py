"""The text that a command is given: as a file, or as it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headwise.core import HeadwiseError

_NAMES_A_FILE = re.compile(
    r"(?:~|\.{0,2})/\S+|[^\s()\[\]=]+\.(?:txt|md|rst|csv|tsv|json|jsonl|html?|xml|tex|log|py|text|pdf|docx?)"
)


def given_text(text_or_file: str, *, who: str) -> str:
    """The contents of a file in UTF-8 where there is one of that name, and otherwise the text itself.

    Raises HeadwiseError for a folder, for a file that is no text, for what looks like a file's name where
    there is none such, and for a text without a word.

    >>> given_text("The charge exceeded the refund.", who="inspect")
    'The charge exceeded the refund.'
    """
    if os.path.exists(text_or_file):  # Path.exists raises where a text is too long for a name
        text = _contents(Path(text_or_file), who)
    elif _NAMES_A_FILE.fullmatch(text_or_file):
        raise _refused(who, "a file that exists, or a text", text_or_file, "There is no file of that name")
    else:
        text = text_or_file
    if re.search("[\ud800-\udfff]", text):
        raise _refused(who, "in UTF-8", text, "Some of its bytes are no letters in that encoding")
    if not text.strip():
        raise _refused(who, "at least one word", text, "Attention needs something to attend to")
    return text


def _contents(path: Path, who: str) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"Its byte {error.start:,} is no letter in that encoding"
        raise _refused(who, "a file in UTF-8", str(path), why) from error
    except OSError as error:
        raise _refused(who, "a file that can be read", str(path), f"{error.strerror}") from error
    if "\0" in text:
        raise _refused(who, "a file in UTF-8", str(path), "It holds zero bytes, as no text does")
    return text


def _refused(who: str, expected: str, got: str, why: str) -> HeadwiseError:
    shown = got if len(got) <= 60 else f"{got[:59]}~"
    return HeadwiseError(
        who=who,
        what="the text",
        expected=expected,
        got=repr(shown),
        why=why,
        do='Give a text file, or the text itself in quotes, such as "The cat sat on the mat"',
    )
