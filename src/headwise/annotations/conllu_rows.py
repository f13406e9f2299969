"""The lines of a CoNLL-U file, sentence by sentence, each checked to be one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headwise.annotations.label_file import bad_line
from headwise.errors import HeadwiseError

COLUMNS = 10
ID, FORM, UPOS, HEAD, DEPREL, MISC = 0, 1, 3, 6, 7, 9


class Row(NamedTuple):
    """A word's columns, its line in the file, its head, and whether the file has a space after it.

    An ``empty`` node (``8.1``) is no word of the text: it has no head, and nothing is written there.
    """

    columns: list[str]
    line: int
    head: int
    space_after: bool
    empty: bool = False


class Sentence(NamedTuple):
    """What the comments say, by key, and the words with the empty nodes between them, in their order."""

    comments: dict[str, str]
    nodes: list[Row]

    @property
    def rows(self) -> list[Row]:
        """The words of the basic tree."""
        return [row for row in self.nodes if not row.empty]


def sentences_of(lines: Sequence[str], *, path: str | Path) -> Iterator[Sentence]:
    """The sentences of a file, as blocks between empty lines, without blocks of comments alone.

    Raises HeadwiseError, with the file and the line, if a line is none of CoNLL-U; and if the package
    conllu, which knows the forms of ids and heads, is not installed.

    >>> [sentence] = sentences_of(["# text = Go", "1\\tGo\\tgo\\tVERB\\t_\\t_\\t0\\troot\\t_\\t_"], path="a")
    >>> sentence.comments, sentence.rows[0].head
    ({'text': 'Go'}, 0)
    """
    grammar = _grammar()
    block: list[tuple[str, int]] = []
    for line, text in enumerate([*lines, ""], start=1):
        if text.strip():
            block.append((text, line))
        elif block:
            comments = [grammar.parse_pair_value(text[1:]) for text, _ in block if text.startswith("#")]
            words = [(text, line) for text, line in block if not text.startswith("#")]
            if words:
                nodes = list(_nodes(words, path, grammar))
                if all(node.empty for node in nodes):
                    got, line = "empty nodes alone", words[0][1]
                    what, expected, why = "the sentence", "at least one word", "A tree has words"
                    raise bad_line(path, line, what=what, expected=expected, got=got, why=why)
                yield Sentence({key: said or "" for key, said in comments}, nodes)
            block = []


def _grammar() -> Any:  # noqa: ANN401 - a module
    try:
        from conllu import parser
    except ImportError as error:
        raise HeadwiseError(
            who="read_conllu",
            what="conllu",
            expected="installed to read a treebank",
            got="no such package",
            why="It is an optional dependency",
            do="Run: pip install 'headwise[treebanks]'",
        ) from error
    return parser


def _nodes(block: Sequence[tuple[str, int]], path: str | Path, grammar: Any) -> Iterator[Row]:  # noqa: ANN401
    """The words and empty nodes (8.1), without the lines of multiword tokens (3-4)."""
    wanted, last_of_range, space_after_range, range_line = 1, 0, True, 0
    for text, line in block:
        columns = _columns(text, line, path)
        number = _parsed(grammar, "id", columns[ID])
        space = "SpaceAfter=No" not in columns[MISC].split("|")
        kind = number[1] if isinstance(number, tuple) else "word"
        if kind == "-" and number[0] == wanted > last_of_range:
            last_of_range, space_after_range, range_line = number[2], space, line
        elif kind == "word" and number == wanted:
            if number <= last_of_range:
                space = space_after_range and number == last_of_range
            yield Row(columns, line, _head(columns[HEAD], line, path, grammar), space)
            wanted += 1
        elif kind == "." and number[0] == wanted - 1:
            yield Row(columns, line, 0, space_after=False, empty=True)
        else:
            raise bad_line(
                path,
                line,
                what="the id",
                expected=str(wanted),
                got=repr(columns[ID]),
                why="Words count up from 1 in each sentence, and an empty line parts sentences",
            )
    if last_of_range >= wanted:
        raise bad_line(
            path,
            range_line,
            what="the words of a multiword token",
            expected=f"in the sentence, up to {last_of_range}",
            got=f"no word {wanted}",
            why="The line of a range stands before the words that it is written for",
        )


def _columns(text: str, line: int, path: str | Path) -> list[str]:
    columns = text.split("\t")
    if len(columns) != COLUMNS or "" in columns:
        raise bad_line(
            path,
            line,
            what="the line",
            expected=f"{COLUMNS} columns",
            got=f"{len(columns)}" if len(columns) != COLUMNS else "an empty one among them",
            why="CoNLL-U parts columns with tabs, and writes _ where there is nothing",
        )
    return columns


def _head(column: str, line: int, path: str | Path, grammar: Any) -> int:  # noqa: ANN401
    head = _parsed(grammar, "int", column)
    if head is None or head < 0:
        why = "Every word of the basic tree hangs on a word, or on 0"
        expected = "a word's number, or 0"
        raise bad_line(path, line, what="the head", expected=expected, got=repr(column), why=why)
    return int(head)


def _parsed(grammar: Any, kind: str, column: str) -> Any:  # noqa: ANN401
    """What the column says, or None if the grammar does not know it."""
    try:
        return getattr(grammar, f"parse_{kind}_value")(column)
    except grammar.ParseException:
        return None
