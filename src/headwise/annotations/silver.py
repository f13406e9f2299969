"""Trees for plain text by an installed parser: silver, because a parser errs where people would not."""

from __future__ import annotations

from typing import Any

from headwise.annotations.annotated_text import AnnotatedText, Arc
from headwise.annotations.spacing import written
from headwise.errors import HeadwiseError


def silver_trees(text: str, pipeline: str, *, source: str = "text") -> list[AnnotatedText]:
    """The sentences of a plain text with trees and parts of speech by an installed spaCy pipeline.

    ``pipeline`` is what ``spacy.load`` takes: a package's name or a folder; nothing is downloaded. Names of
    relations are the pipeline's own (``dobj`` and ``pobj`` in spaCy's English ones). ``source`` names the
    text in messages, with the line of each sentence.
    Source: spaCy 3, "Linguistic Features", Dependency Parsing.

    Raises HeadwiseError if spaCy or the pipeline is not installed, if the pipeline makes no trees, or if
    there is no word in the text.
    """
    document = _load(pipeline)(text)
    if not any(not token.is_space for token in document):
        raise HeadwiseError(
            who="silver_trees",
            what="the text",
            expected="at least one word",
            got=repr(text[:20]),
            why="A tree has words",
            do="Give a text with words",
        )
    if not document.has_annotation("DEP"):
        raise HeadwiseError(
            who="silver_trees",
            what="the pipeline",
            expected="one with a parser",
            got=repr(pipeline),
            why="It gave the words no heads",
            do="Use a pipeline with a parser, such as en_core_web_sm",
        )
    sentences = (_sentence(sentence, text, source) for sentence in document.sents)
    return [sentence for sentence in sentences if sentence.words]


def _load(pipeline: str) -> Any:  # noqa: ANN401 - spaCy's types come with spaCy
    try:
        import spacy
    except ImportError as error:
        why, do = "It is used where it is installed", "Run: pip install spacy"
        raise _not_installed("spacy", why, do) from error
    try:
        return spacy.load(pipeline)
    except OSError as error:
        why, do = "Nothing is downloaded", f"Run: python -m spacy download {pipeline}"
        raise _not_installed(f"the pipeline {pipeline!r}", why, do) from error


def _not_installed(what: str, why: str, do: str) -> HeadwiseError:
    return HeadwiseError(
        who="silver_trees", what=what, expected="installed", got="no such package", why=why, do=do
    )


def _sentence(sentence: Any, text: str, source: str) -> AnnotatedText:  # noqa: ANN401
    """One sentence; tokens of white space are no words, and part the words around them."""
    tokens = [token for token in sentence if not token.is_space]
    number = {token.i: at for at, token in enumerate(tokens)}
    rebuilt, words = written(
        (token.text, text[token.idx + len(token) : token.idx + len(token) + 1].isspace()) for token in tokens
    )
    line = text.count("\n", 0, tokens[0].idx) + 1 if tokens else 1
    classes = tuple(token.pos_ for token in tokens)
    return AnnotatedText(
        rebuilt,
        words,
        source=f"{source}:{line}",
        document=source,
        parts_of_speech=classes if any(classes) else (),
        arcs=tuple(
            Arc(number[token.i], number[token.head.i], token.dep_)
            for token in tokens
            if token.head.i != token.i and token.head.i in number
        ),
    )
