"""A user's own labels, from JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from headwise.annotations.annotated_text import AnnotatedText, Link, Word
from headwise.annotations.label_file import bad_line, text_of
from headwise.annotations.plain_words import words_around

_SPACE = " \t\n"
Span = tuple[int, int]
FORM = 'as in {"text": "A cat ran. It hid.", "links": [{"label": "who", "from": [11, 13], "to": [[2, 5]]}]}'


def read_labels(path: str | Path) -> list[AnnotatedText]:
    """Texts with links, and with segments if given, from a JSON file of a user's own.

    The file holds objects, one after another (one a line, say) or in one list. Each has

    - ``"text"``: the text;
    - ``"links"``: a list of ``{"label": name, "from": span, "to": [span, ...]}``: the word at ``from``
      should look at any of those at ``to``;
    - ``"segments"``, if wanted: a list of ``{"label": name, "span": span}``, such as speakers;
    - ``"document"``, if wanted: the name of what it is part of.

    A span is ``[start, stop]``, in characters of the text from 0, ``stop`` the first behind it. Each span of
    a link is one word, however long; the rest of the text is cut into those of ``plain_words``.

    Raises HeadwiseError, with the file and the line the object begins on, if the file is no JSON, or an
    object is not of that form, or spans of links overlap.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.json"
    >>> _ = file.write_text('{"text": "A cat ran. It hid.", '
    ...     '"links": [{"label": "who", "from": [11, 13], "to": [[2, 5]]}]}')
    >>> read_labels(file)[0].links
    (Link(label='who', query=4, keys=(1,)),)
    """
    content = text_of(path, kind="JSON")
    texts = [_text(given, _Place(path, line)) for given, line in _objects(content, path)]
    if not texts:
        raise _Place(path, 1).bad("the file", "one with at least one text", [])
    return texts


class _Place(NamedTuple):
    path: str | Path
    line: int

    def bad(self, what: str, expected: str, got: object) -> Exception:
        said = repr(got)
        said = said if len(said) < 60 else said[:57] + "..."
        why = f"Labels stand {FORM}"
        return bad_line(self.path, self.line, what=what, expected=expected, got=said, why=why)

    def no_json(self, got: str, why: str) -> Exception:
        return bad_line(self.path, self.line, what="the text", expected="JSON", got=got, why=why)


def _objects(content: str, path: str | Path) -> Iterator[tuple[Any, int]]:
    """Each object of the file, in a list or not, with the line it begins on."""
    at, counted, line, gap = _after(_SPACE, content, 0), 0, 1, _SPACE
    if content.startswith("[", at):
        with _refusing(_Place(path, content.count("\n", 0, at) + 1)):
            json.loads(content, parse_int=str)  # all of it, since the way through it below sees no lost comma
        at, gap = at + 1, _SPACE + ","
    while (at := _after(gap, content, at)) < len(content) and not (gap != _SPACE and content[at] == "]"):
        line += content.count("\n", counted, at)
        counted = at
        with _refusing(_Place(path, line)):
            given, at = json.JSONDecoder().raw_decode(content, at)
            json.dumps(given, ensure_ascii=False).encode()
        yield given, line


def _after(gap: str, content: str, at: int) -> int:
    while at < len(content) and content[at] in gap:
        at += 1
    return at


@contextmanager
def _refusing(place: _Place) -> Iterator[None]:
    """Whatever can be wrong with JSON, and with what it says, as a line about the place."""
    try:
        yield
    except json.JSONDecodeError as error:
        place = place._replace(line=error.lineno)
        raise place.no_json(f"a fault at column {error.colno}", error.msg) from error
    except RecursionError as error:
        raise place.no_json("too many lists or objects within each other", "Labels need few") from error
    except UnicodeEncodeError as error:
        half = repr(error.object[error.start])
        raise place.no_json(f"{half}, half a character", "Two of such codes make one character") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise place.no_json("a number of thousands of digits", "Numbers count characters") from error


def _text(given: Any, place: _Place) -> AnnotatedText:  # noqa: ANN401
    if not isinstance(given, dict) or not isinstance(given.get("text"), str) or not given["text"].strip():
        raise place.bad("each object", 'one with a "text"', given)
    text = given["text"]
    links = [_link(link, place, text) for link in _list(given, "links", place)]
    words = _words(text, {span for _, spans in links for span in spans}, place)
    number = {(word.start, word.stop): at for at, word in enumerate(words)}
    document = given.get("document", Path(place.path).name)
    if not isinstance(document, str):
        raise place.bad('"document"', "a name", document)
    return AnnotatedText(
        text,
        tuple(words),
        source=f"{place.path}:{place.line}",
        document=document,
        links=tuple(
            Link(label, number[first], tuple(number[to] for to in rest)) for label, (first, *rest) in links
        ),
        segments=_segments(_list(given, "segments", place), words, place, text),
    )


def _list(given: dict[str, Any], key: str, place: _Place) -> list[Any]:
    listed = given.get(key, [])
    if not isinstance(listed, list):
        raise place.bad(f'"{key}"', "a list", listed)
    return listed


def _link(link: Any, place: _Place, text: str) -> tuple[str, list[Span]]:  # noqa: ANN401
    """The label, and the span the link is from before those it is to."""
    keys = isinstance(link, dict) and link.keys() == {"label", "from", "to"}
    if not keys or not isinstance(link["label"], str) or not isinstance(link["to"], list) or not link["to"]:
        raise place.bad("a link", 'an object with "label", "from", and a list "to"', link)
    return link["label"], [_span(span, place, text) for span in (link["from"], *link["to"])]


def _span(span: Any, place: _Place, text: str) -> Span:  # noqa: ANN401
    whole = isinstance(span, list) and len(span) == 2 and all(type(at) is int for at in span)
    if not whole or not 0 <= span[0] < span[1] <= len(text) or not text[slice(*span)].strip():
        raise place.bad("a span", f"[start, stop] around characters within 0 and {len(text)}", span)
    return span[0], span[1]


def _words(text: str, spans: set[Span], place: _Place) -> list[Word]:
    """The spans as one word each, and the pieces of the text between them."""
    ordered = sorted(spans)
    for (_, stop), later in pairwise(ordered):
        if later[0] < stop:
            raise place.bad("the spans of links", "equal or apart, since each is one word", list(later))
    return words_around(text, ordered)


def _segments(given: list[Any], words: list[Word], place: _Place, text: str) -> tuple[str, ...]:
    """For each word the label of the segment that its first character is in."""
    labels = [""] * len(words)
    for segment in given:
        keys = isinstance(segment, dict) and segment.keys() == {"label", "span"}
        if not keys or not isinstance(segment["label"], str):
            raise place.bad("a segment", 'an object with "label" and "span"', segment)
        start, stop = _span(segment["span"], place, text)
        labels = [
            segment["label"] if start <= word.start < stop else label
            for word, label in zip(words, labels, strict=True)
        ]
    return tuple(labels) if any(labels) else ()
