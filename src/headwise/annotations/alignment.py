"""Which word a token belongs to, for any tokenizer that says which characters its tokens are."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.annotations.annotated_text import AnnotatedText
from headwise.errors import HeadwiseError


def words_of_tokens(spans: Sequence[tuple[int, int]], text: AnnotatedText) -> list[int]:
    """For each token the number of its word, by the characters they share; -1 for a token of no word.

    ``spans`` are the tokens' first characters and the ends of their last ones, as a tokenizer's offsets
    give them; special tokens are (0, 0). A token that reaches into several words belongs to the one it
    shares most characters with, the first of equals.

    Raises HeadwiseError, with the text's source, if a word has no token: it could not be scored.

    >>> from headwise.annotations import Word
    >>> text = AnnotatedText("unhappy dogs", (Word("unhappy", 0, 7), Word("dogs", 8, 12)), "typed:1", "typed")
    >>> words_of_tokens([(0, 0), (0, 2), (2, 7), (7, 12), (0, 0)], text)
    [-1, 0, 0, 1, -1]
    """
    owners = owners_of(spans, text)
    _check_all_found(owners, text)
    return owners


def owners_of(spans: Sequence[tuple[int, int]], text: AnnotatedText) -> list[int]:
    """The same, where words may be left without a token.

    >>> from headwise.annotations import Word
    >>> owners_of([(0, 2)], AnnotatedText('."', (Word(".", 0, 1), Word('"', 1, 2)), "typed:1", "typed"))
    [0]
    """
    owners: list[int] = []
    first = 0
    for start, stop in spans:
        if stop <= start:
            owners.append(-1)
            continue
        if first and text.words[first - 1].stop > start:
            first = 0  # a tokenizer may go back, and then the search does too
        while first < len(text.words) and text.words[first].stop <= start:
            first += 1
        owner, most = -1, 0
        for number in range(first, len(text.words)):
            word = text.words[number]
            if word.start >= stop:
                break
            shared = min(stop, word.stop) - max(start, word.start)
            if shared > most:
                owner, most = number, shared
        owners.append(owner)
    return owners


def words_without_token(owners: Sequence[int], text: AnnotatedText) -> list[int]:
    """The words that no token belongs to.

    >>> from headwise.annotations import Word
    >>> words_without_token([0], AnnotatedText('."', (Word(".", 0, 1), Word('"', 1, 2)), "typed:1", "typed"))
    [1]
    """
    return sorted(set(range(len(text.words))) - set(owners))


def _check_all_found(owners: Sequence[int], text: AnnotatedText) -> None:
    lost = words_without_token(owners, text)
    if lost:
        word = text.words[lost[0]]
        raise HeadwiseError(
            who=text.source,
            what=f"word {lost[0] + 1} of {len(text.words)}, {word.text!r},",
            expected="one that a token covers",
            got=f"no token for characters {word.start} to {word.stop - 1}",
            why="The tokenizer drops it, or makes one token of it and a neighbour, or the text was cut short",
            do="Leave this text out, or use a tokenizer that keeps its words apart",
        )
