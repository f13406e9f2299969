"""The sentences of the sense pairs as texts: each with its cue, and the same with a control word there."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.annotations import AnnotatedText, Link, SensePair
from headwise.annotations.plain_words import words_around
from headwise.look.roles.links import MEANING


def sense_texts(pairs: Iterable[SensePair]) -> tuple[list[AnnotatedText], list[AnnotatedText]]:
    """Sentences with cues and with controls, in the same order; the ambiguous word's pairs are a document.

    >>> pair = SensePair("bank", "money", "loan", "movie", "After the {} they ran to the bank.")
    >>> cues, controls = sense_texts([pair])
    >>> [(text.words[link.query].text, text.words[link.keys[0]].text) for text in (*cues, *controls)
    ...  for link in text.links]
    [('bank', 'loan'), ('bank', 'movie')]
    """
    cues, controls = [], []
    for pair in pairs:
        cues.append(_text(pair, pair.cue_sentence, pair.word_span_after_cue, pair.cue_span))
        controls.append(_text(pair, pair.control_sentence, pair.word_span_after_control, pair.control_span))
    return cues, controls


def _text(pair: SensePair, sentence: str, word: tuple[int, int], other: tuple[int, int]) -> AnnotatedText:
    words = tuple(words_around(sentence, [word, other]))
    places = {(each.start, each.stop): number for number, each in enumerate(words)}
    link = Link(MEANING, places[word], (places[other],))
    return AnnotatedText(sentence, words, f"sense pairs: {sentence}", pair.word, links=(link,))
