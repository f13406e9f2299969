"""The meaning set: enough of it, fair between cue and control, and bad files of a user refused by line."""

import math
import re
from collections import Counter, defaultdict

import pytest

from headwise.annotations import Link, SensePair, read_sense_pairs, sense_pairs
from headwise.annotations.senses import COLUMNS
from headwise.errors import HeadwiseError
from headwise.experiments.roles.sense_texts import sense_texts
from headwise.models import open_text_model

PAIRS = sense_pairs()
TOP = "\t".join(COLUMNS)
GOOD = "bank\tmoney\tloan\tmovie\tAfter the {} they ran to the bank."


def words(sentence):
    return re.findall(r"[a-z]+", sentence.lower())


def test_there_are_enough_pairs_of_enough_words():
    senses = defaultdict(set)
    for pair in PAIRS:
        senses[pair.word].add(pair.sense)
    assert len(PAIRS) >= 110
    assert len(senses) >= 24
    assert min(map(len, senses.values())) >= 2
    assert min(Counter((pair.word, pair.sense) for pair in PAIRS).values()) >= 2
    assert {"electricity", "money"} == senses["charge"]


def test_no_row_is_given_twice():
    assert len(set(PAIRS)) == len(PAIRS)
    assert len({(pair.cue, pair.frame) for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.word}, {pair.cue}")
def test_cue_and_control_stand_once_at_one_place_before_the_word(pair):
    assert pair.frame.count("{}") == 1
    before, after = pair.frame.split("{}")
    assert pair.word not in words(before)
    assert words(after).count(pair.word) == 1
    assert 3 <= words(after).index(pair.word) + 1 <= 9
    for filler in (pair.cue, pair.control):
        assert filler not in words(pair.frame)
        assert filler != pair.word
    assert pair.cue != pair.control
    assert not before.endswith(("a ", "an "))
    assert pair.frame[0].isupper()
    assert pair.frame.endswith(".")


def test_a_frame_tells_no_sense_from_another():
    fillings = defaultdict(list)
    for pair in PAIRS:
        fillings[pair.frame].append(pair)
    for frame, pairs in fillings.items():
        assert len({pair.word for pair in pairs}) == 1, frame
        assert len({pair.control for pair in pairs}) == 1, frame
        assert len({pair.sense for pair in pairs}) == len(pairs) >= 2, frame


def test_no_sense_of_a_word_outweighs_another():
    counts = defaultdict(Counter)
    for pair in PAIRS:
        counts[pair.word][pair.sense] += 1
    for word, of_sense in counts.items():
        assert max(of_sense.values()) - min(of_sense.values()) <= 1, word


def test_each_is_one_token_at_one_place_to_both_models(smollm2):
    for model in (open_text_model(), smollm2):
        for pair in PAIRS:
            cue, control = model.encode(pair.cue_sentence), model.encode(pair.control_sentence)
            ends = [[stop for _, stop in text.spans] for text in (cue, control)]
            place = ends[0].index(pair.cue_span[1])
            assert ends[1].index(pair.control_span[1]) == place, (model.name, pair)
            assert ends[0].index(pair.word_span_after_cue[1]) == ends[1].index(
                pair.word_span_after_control[1]
            )
            starts = {pair.cue_span[0], pair.word_span_after_cue[0]}
            assert len({start for start, stop in cue.spans if stop} & one_or_the_space_before(starts)) == 2
            assert len(cue.tokens) == len(control.tokens)


def test_cues_are_not_rarer_than_controls(smollm2):
    """Some heads look at any rare word. Both vocabularies count from the common tokens to the rare."""
    for model in (open_text_model(), smollm2):
        number = model.tokenizer(
            [f" {word}" for pair in PAIRS for word in (pair.cue, pair.control)], add_special_tokens=False
        ).input_ids
        ratio = math.exp(
            sum(math.log(cue / control) for [cue], [control] in zip(number[::2], number[1::2], strict=True))
            / len(PAIRS)
        )
        assert 3 / 4 < ratio < 4 / 3, model.name


def one_or_the_space_before(starts):
    """A token of SmolLM2's may begin at the space."""
    return starts | {start - 1 for start in starts}


def test_spans_where_the_control_is_longer_than_the_cue():
    pair = SensePair("bank", "river", "eel", "cousin", "Of the {} she spoke, by the bank, and left.")
    #                0123456789 0123456789 0123456789: "Of the " is 7 characters, " she spoke, by the " 19
    assert pair.cue_sentence == "Of the eel she spoke, by the bank, and left."
    assert pair.control_sentence == "Of the cousin she spoke, by the bank, and left."
    assert (pair.cue_span, pair.control_span) == ((7, 10), (7, 13))
    assert (pair.word_span_after_cue, pair.word_span_after_control) == ((29, 33), (32, 36))


@pytest.mark.parametrize("pair", PAIRS[::7], ids=lambda pair: f"{pair.word}, {pair.cue}")
def test_spans_cut_the_words_out(pair):
    def cut(sentence, span):
        return sentence[span[0] : span[1]]

    assert cut(pair.cue_sentence, pair.cue_span) == pair.cue
    assert cut(pair.control_sentence, pair.control_span) == pair.control
    assert cut(pair.cue_sentence, pair.word_span_after_cue) == pair.word
    assert cut(pair.control_sentence, pair.word_span_after_control) == pair.word


def test_a_file_of_ones_own_with_windows_line_ends_and_a_byte_order_mark(tmp_path):
    file = tmp_path / "mine.tsv"
    file.write_bytes(b"\xef\xbb\xbf" + f"{TOP}\r\n\r\n{GOOD}\r\n".encode())
    assert read_sense_pairs(file) == [
        SensePair("bank", "money", "loan", "movie", "After the {} they ran to the bank.")
    ]


def with_frame(frame, word="bank", cue="loan", control="movie"):
    return f"{TOP}\n{GOOD}\n{word}\tmoney\t{cue}\t{control}\t{frame}"


BAD_FILES = {
    "empty": (
        "",
        1,
        "the file must be a sense pair file that can be read, got 'mine.tsv'. The file is empty",
    ),
    "another top line": (GOOD, 1, "the top line must be"),
    "a top line alone": (TOP + "\n\n", 1, "the file must be a top line and at least one pair, got no pair"),
    "a column short": (
        f"{TOP}\nbank\tmoney\tloan",
        2,
        "the line must be 5 filled columns, got 3 filled of 3",
    ),
    "an empty column": (f"{TOP}\n\nbank\t\tloan\tdog\tA {{}}", 3, "got 4 filled of 5"),
    "a row twice": (f"{TOP}\n{GOOD}\n{GOOD}", 3, "must be a pair not given before", "here and in line 2"),
    "no place": (with_frame("They ran to the bank."), 3, "must be a sentence with {} once, got 'They"),
    "two places": (with_frame("The {} of the {} at the bank."), 3, "must be a sentence with {} once"),
    "no word": (with_frame("The {} of the banker."), 3, "with the word 'bank' once, after {}"),
    "the word first": (with_frame("The bank had a {}."), 3, "with the word 'bank' once, after {}"),
    "the word twice": (with_frame("The {}, bank to Bank."), 3, "with the word 'bank' once, after {}"),
    "one word for both": (
        with_frame("The {} of the bank.", control="Loan"),
        3,
        "the control must be another word than the cue, got 'Loan'",
    ),
    "the cue again": (
        with_frame("The {} of the loan bank."),
        3,
        "the cue must be a word that is nowhere else in the sentence, got 'loan'",
    ),
    "the control again": (with_frame("A movie or {} of the bank."), 3, "the control must be a word that is"),
    "the word in the cue": (
        with_frame("The {} of the bank.", cue="old bank"),
        3,
        "the cue must be a word that",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(case, tmp_path):
    text, line, *fragments = BAD_FILES[case]
    file = tmp_path / "mine.tsv"
    file.write_text(text)
    with pytest.raises(HeadwiseError) as caught:
        read_sense_pairs(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:{line}: ")
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(
        HeadwiseError, match=r"must be a sense pair file that can be read, got 'none\.tsv'.*No such"
    ):
        read_sense_pairs(tmp_path / "none.tsv")
    (tmp_path / "bytes.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HeadwiseError, match=r"bytes\.tsv:1: the text must be UTF-8, got the byte 0xff"):
        read_sense_pairs(tmp_path / "bytes.tsv")


@pytest.mark.parametrize(
    ("frame", "cue", "link"),
    [
        ("After the {} they ran to the bank.", "credit card", Link("meaning", 7, (2,))),
        ("After the {} they ran to the river-bank sign.", "loan", Link("meaning", 9, (2,))),
        ("After the {} they saw the bank's sign.", "loan", Link("meaning", 6, (2,))),
    ],
)
def test_cue_and_word_are_one_word_each_however_they_are_written(frame, cue, link, tmp_path):
    file = tmp_path / "mine.tsv"
    file.write_text(with_frame(frame, cue=cue))
    cues, controls = sense_texts(read_sense_pairs(file))
    assert (cues[1].links, controls[1].links) == ((link,), (link,))
    assert [cues[1].words[at].text for at in (link.query, *link.keys)] == ["bank", cue]
