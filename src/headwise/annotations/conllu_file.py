"""Sentences with dependency trees and coreference from a CoNLL-U file."""

from __future__ import annotations

from pathlib import Path

from headwise.annotations.annotated_text import AnnotatedText
from headwise.annotations.conllu_rows import DEPREL, FORM, MISC, UPOS, sentences_of
from headwise.annotations.entities import GUM_FIELDS, Marked, mentions_of
from headwise.annotations.label_file import bad_line, text_of
from headwise.annotations.spacing import written
from headwise.annotations.trees import Attached, arcs_of


def read_conllu(path: str | Path) -> list[AnnotatedText]:
    """The sentences of a CoNLL-U file, with trees, parts of speech, coreference and speakers.

    Only the basic tree is read: lines of multiword tokens (``3-4``) are left out, and of empty nodes
    (``8.1``) only the brackets of ``Entity`` are read; mentions that are nothing but empty nodes are left
    out, as no token stands for them. The text is made of the words' forms, spaced as the file says
    (``SpaceAfter=No``) but for words such as ``do`` ``n't``, which ``written`` keeps apart. Relations are as
    in the file, with subtypes (``obl:tmod``).
    Source: Universal Dependencies, the format CoNLL-U.

    Raises HeadwiseError, with the file and the line, if the file is not CoNLL-U in UTF-8, or a tree is
    none, or the brackets of ``Entity`` do not pair; and if the package conllu is not installed.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "two.conllu"
    >>> _ = file.write_text("# newdoc id = talk\\n"
    ...     "1\\tDo\\tdo\\tAUX\\t_\\t_\\t3\\taux\\t_\\t_\\n"
    ...     "2\\tI\\tI\\tPRON\\t_\\t_\\t3\\tnsubj\\t_\\t_\\n"
    ...     "3\\tgo\\tgo\\tVERB\\t_\\t_\\t0\\troot\\t_\\tSpaceAfter=No\\n"
    ...     "4\\t?\\t?\\tPUNCT\\t_\\t_\\t3\\tpunct\\t_\\t_\\n")
    >>> [sentence] = read_conllu(file)
    >>> sentence.text, sentence.document, sentence.arcs[0]
    ('Do I go?', 'talk', Arc(dependent=0, head=2, relation='aux'))
    """
    name = Path(path).name
    document, documents, fields = name, 0, GUM_FIELDS
    sentences = []
    for sentence in sentences_of(text_of(path, kind="CoNLL-U").split("\n"), path=path):
        comments, rows = sentence.comments, sentence.rows
        if "newdoc" in comments or "newdoc id" in comments:
            documents += 1
            document = comments.get("newdoc id") or f"{name} {documents}"
        fields = comments.get("global.Entity") or fields
        text, words = written((row.columns[FORM], row.space_after) for row in rows)
        classes = tuple(row.columns[UPOS] for row in rows)
        marked = [Marked(_entity(node.columns[MISC]), node.line, node.empty) for node in sentence.nodes]
        attached = [Attached(row.head, row.columns[DEPREL], row.line) for row in rows]
        sentences.append(
            AnnotatedText(
                text,
                words,
                source=f"{path}:{rows[0].line}",
                document=document,
                parts_of_speech=classes if set(classes) != {"_"} else (),
                arcs=arcs_of(attached, path=path),
                mentions=mentions_of(marked, path=path, fields=fields),
                segments=(comments["speaker"],) * len(words) if comments.get("speaker") else (),
            )
        )
    if not sentences:
        raise bad_line(
            path,
            1,
            what="the file",
            expected="one with sentences",
            got="comments alone",
            why="A sentence has words",
            do="Give a file that holds at least one sentence",
        )
    return sentences


def _entity(misc: str) -> str:
    return "".join(part.removeprefix("Entity=") for part in misc.split("|") if part.startswith("Entity="))
