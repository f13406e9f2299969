"""Pairs of sentences in which a word of two senses stands after a cue that settles it, or after a control."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from headwise.annotations.label_file import bad_line, text_of
from headwise.errors import HeadwiseError

COLUMNS = ("word", "sense", "cue", "control", "frame")
PACKAGED = "senses.tsv"


@dataclass(frozen=True)
class SensePair:
    """A word of several senses in two sentences: the cue settles the sense, the control leaves it open.

    ``frame`` is a sentence with ``{}`` where the cue or the control stands and with ``word`` once after it,
    so that a model that reads from left to right has seen either. Both stand at one place: whatever the word
    gives the cue and not the control, it gives to what the cue means. Spans are the first character and
    the one after the last.

    >>> pair = SensePair("bank", "money", "loan", "movie", "After the {} they ran to the bank.")
    >>> pair.cue_sentence, pair.control_sentence
    ('After the loan they ran to the bank.', 'After the movie they ran to the bank.')
    >>> pair.cue_span, pair.word_span_after_cue, pair.word_span_after_control
    ((10, 14), (31, 35), (32, 36))
    """

    word: str
    sense: str
    cue: str
    control: str
    frame: str

    @property
    def cue_sentence(self) -> str:
        """The frame with the cue."""
        return self.frame.replace("{}", self.cue)

    @property
    def control_sentence(self) -> str:
        """The frame with the control."""
        return self.frame.replace("{}", self.control)

    @property
    def cue_span(self) -> tuple[int, int]:
        """Where the cue is in ``cue_sentence``."""
        return self._span_of(self.cue)

    @property
    def control_span(self) -> tuple[int, int]:
        """Where the control is in ``control_sentence``."""
        return self._span_of(self.control)

    @property
    def word_span_after_cue(self) -> tuple[int, int]:
        """Where the word is in ``cue_sentence``."""
        return self._word_span_after(self.cue)

    @property
    def word_span_after_control(self) -> tuple[int, int]:
        """Where the word is in ``control_sentence``."""
        return self._word_span_after(self.control)

    def _span_of(self, filler: str) -> tuple[int, int]:
        start = self.frame.index("{}")
        return start, start + len(filler)

    def _word_span_after(self, filler: str) -> tuple[int, int]:
        start, stop = _places(self.word, self.frame)[-1]
        shift = len(filler) - len("{}")
        return start + shift, stop + shift


def sense_pairs() -> list[SensePair]:
    """The pairs that come with headwise: 50 English words, two or three senses each, two frames or more.

    The senses of a word stand in the same frames, beside the same control, so the frame alone tells none from
    another. Cues and controls are nouns, about equally common, since some heads look at any rare word; each
    is one token to MiniLM and to SmolLM2. All are written for headwise, none is taken from a corpus.

    >>> pairs = sense_pairs()
    >>> len(pairs), len({pair.word for pair in pairs})
    (214, 50)
    >>> next(pair.cue_sentence for pair in pairs if (pair.word, pair.sense) == ("charge", "electricity"))
    'After asking about the battery, she noticed that the charge was too high.'
    """
    file = resources.files("headwise.annotations").joinpath(PACKAGED)
    return _pairs_of(file.read_text("utf-8"), PACKAGED)


def read_sense_pairs(path: str | Path) -> list[SensePair]:
    """Pairs from a file of your own: UTF-8, columns between tabs, ``word sense cue control frame`` on top.

    Empty lines are passed over. Raises HeadwiseError, with the file and the line, if the file cannot be read
    or holds no pair, or if a line has other columns, repeats another, or does not do what ``SensePair`` says.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.tsv"
    >>> lines = "\\t".join(COLUMNS), "bank\\tmoney\\tloan\\tmovie\\tAfter the {} they ran to the bank."
    >>> _ = file.write_text("\\n".join(lines))
    >>> read_sense_pairs(file)[0].control_sentence
    'After the movie they ran to the bank.'
    """
    return _pairs_of(text_of(path, kind="sense pair"), path)


def _pairs_of(text: str, path: str | Path) -> list[SensePair]:
    top, *lines = text.split("\n")
    if tuple(top.split("\t")) != COLUMNS:
        expected = f"{' '.join(COLUMNS)}, with tabs between them"
        raise _bad(path, 1, ("the top line", expected, repr(top[:60]), "It names the columns"))
    seen: dict[SensePair, int] = {}
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != len(COLUMNS) or not all(cells):
            found = f"{sum(map(bool, cells))} filled of {len(cells)}"
            raise _bad(path, number, ("the line", "5 filled columns", found, "Tabs stand between columns"))
        pair = SensePair(*cells)
        if pair in seen:
            why = f"It would count twice, here and in line {seen[pair]}"
            raise _bad(path, number, ("the line", "a pair not given before", repr(line[:60]), why))
        if fault := _fault(pair):
            raise _bad(path, number, fault)
        seen[pair] = number
    if not seen:
        raise _bad(path, 1, ("the file", "a top line and at least one pair", "no pair", "It holds no more"))
    return list(seen)


Fault = tuple[str, str, str, str]  # what, expected, got, why


def _fault(pair: SensePair) -> Fault | None:
    """What is wrong with the pair, if anything."""
    frame = repr(pair.frame)
    if pair.frame.count("{}") != 1:
        return "the frame", "a sentence with {} once", frame, "The cue or the control goes there"
    places = _places(pair.word, pair.frame)
    if len(places) != 1 or places[0][0] < pair.frame.index("{}"):
        expected = f"a sentence with the word {pair.word!r} once, after {{}}"
        return "the frame", expected, frame, "The word has to have the cue before it to look back at"
    if pair.cue.lower() == pair.control.lower():
        return "the control", "another word than the cue", repr(pair.control), "The two are compared"
    for what, filler in (("the cue", pair.cue), ("the control", pair.control)):
        if _places(filler, pair.frame) or _places(pair.word, filler):
            expected = "a word that is nowhere else in the sentence"
            return what, expected, repr(filler), f"The frame is {frame} and the word {pair.word!r}"
    return None


def _places(word: str, sentence: str) -> list[tuple[int, int]]:
    """The spans at which the whole word stands in the sentence, in any case."""
    found = re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", sentence, re.IGNORECASE)
    return [match.span() for match in found]


def _bad(path: str | Path, line: int, fault: Fault) -> HeadwiseError:
    what, expected, got, why = fault
    return bad_line(path, line, what=what, expected=expected, got=got, why=why)
