"""What a user gives to the battery: treebanks, plain text and labels, read from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headwise.annotations import AnnotatedText, read_conllu, read_labels, silver_trees
from headwise.core import HeadwiseError
from headwise.experiments.inside.given_text import given_text
from headwise.experiments.roles.plain_text import plain_sentences
from headwise.experiments.roles.probes import SENTENCE_WORDS, Sources

WHO = "roles"
_LONGEST_NAME = 30


def sources_from(
    treebanks: Sequence[str | Path] = (),
    text: str | None = None,
    labels: str | Path | None = None,
    pipeline: str | None = None,
) -> list[Sources]:
    """All sentences as one source, all labelled texts as another.

    ``text`` is a file or the text itself; a spaCy ``pipeline`` gives it trees. Raises HeadwiseError if a file
    cannot be read or is not what it should be, if a pipeline is given without a text, or if no sentence has
    5 to 30 words, which is what roles are read on.

    >>> [source] = sources_from(text="The cat sat on the mat. It slept there all day.")
    >>> source.name, len(source.sentences)
    ('a text of 2 sentences', 2)
    """
    if pipeline is not None and text is None:
        raise HeadwiseError(
            who=WHO,
            what="the pipeline for trees",
            expected="given with a text",
            got=repr(pipeline),
            why="It makes trees for plain text",
            do="Give the text with --text, or leave --trees out",
        )
    names, sentences = [Path(path).name for path in treebanks], []
    for path in treebanks:
        sentences += read_conllu(path)
    if text is not None:
        name, read = _plain(text, pipeline)
        names.append(name)
        sentences += read
    found = [Sources(" and ".join(names), sentences=sentences)] if names else []
    if names:
        _check_lengths(sentences, found[0].name)
    if labels is not None:
        found.append(Sources(Path(labels).name, labelled=read_labels(labels)))
    return found


def _plain(given: str, pipeline: str | None) -> tuple[str, list[AnnotatedText]]:
    text = given_text(given, who=WHO)
    file = Path(given).name if text != given else ""
    if pipeline is None:
        sentences = plain_sentences(text, source=file or "text")
    else:
        sentences = silver_trees(text, pipeline, source=file or "text")
    count = f"a text of {len(sentences)} sentence{'s' if len(sentences) != 1 else ''}"
    return file[:_LONGEST_NAME] or count, sentences


def _check_lengths(sentences: Sequence[AnnotatedText], name: str) -> None:
    low, high = SENTENCE_WORDS
    if any(low <= len(sentence.words) <= high for sentence in sentences):
        return
    raise HeadwiseError(
        who=WHO,
        what="the text",
        expected=f"at least one sentence of {low} to {high} words",
        got=f"{len(sentences)} of other lengths in {name}",
        why="Shorter ones leave a head no choice, and longer ones are rare",
        do="Give more text, with sentences that end in a full stop",
    )
