"""Treebanks are read as they are written: by hand for one sentence, by published counts for real ones."""

import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from headwise.annotations import Arc, Mention, read_conllu
from tests.annotations.treebank import TALK, row, treebank


def test_a_sentence_by_hand(tmp_path):
    path = treebank(tmp_path, *TALK)
    [sentence] = read_conllu(path)
    assert sentence.text == "I ca n't stay, Bo said."
    forms = ["I", "ca", "n't", "stay", ",", "Bo", "said", "."]
    assert [sentence.text[word.start : word.stop] for word in sentence.words] == forms
    assert [word.text for word in sentence.words] == forms
    assert sentence.arcs == (
        Arc(0, 3, "nsubj"),
        Arc(1, 3, "aux"),
        Arc(2, 3, "advmod:neg"),
        Arc(4, 6, "punct"),
        Arc(5, 6, "nsubj"),
        Arc(6, 3, "parataxis"),
        Arc(7, 3, "punct"),
    )
    assert sentence.mentions == (Mention("1", 0, 1, 0), Mention("1", 5, 6, 5))
    assert sentence.parts_of_speech == ("PRON", *["X"] * 7)
    assert sentence.segments == ("Bo",) * 8
    assert sentence.document == "talk"
    assert sentence.source == f"{path}:3"  # the line of the first word


def test_what_the_file_does_not_say_is_empty(tmp_path):
    [one, two] = read_conllu(
        treebank(tmp_path, row(1, part_of_speech="_"), "", "", "# newdoc", row(1, part_of_speech="_"))
    )
    assert one.parts_of_speech == one.arcs == one.mentions == one.segments == one.links == ()
    assert (one.document, two.document) == ("a.conllu", "a.conllu 1")
    assert two.source.endswith("a.conllu:5")


def test_the_space_after_a_multiword_token_is_the_one_its_own_line_says(tmp_path):
    lines = [row("1-2", "I'm", "_", "_", "SpaceAfter=No"), row(1, "I"), row(2, "'m", 1)]
    lines += [row(3, ".", 1, misc="SpaceAfter=No"), row(4, ")", 1)]  # two marks in a row are kept apart
    assert read_conllu(treebank(tmp_path, *lines))[0].text == "I'm. )"


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(tmp_path):
    path = treebank(tmp_path, *TALK)
    [plain] = read_conllu(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_conllu(path) == [plain]


def test_brackets_on_empty_nodes_are_read_and_zeros_are_left_out(tmp_path):
    """A zero opens a mention of the three that follow it; another zero is a mention alone."""
    lines = [
        "# global.Entity = eid-etype-head-other",
        row(1, "Said"),
        row("1.1", "_", "_", "_", "Entity=(e1-a-3-"),
    ]
    lines += [
        row(2, "the", 3),
        row(3, "man", 1, misc="Entity=e1)"),
        row("3.1", "_", "_", "_", "Entity=(e1-a-1-)"),
    ]
    [sentence] = read_conllu(treebank(tmp_path, *lines))
    assert sentence.text == "Said the man"
    assert [word.text for word in sentence.words] == ["Said", "the", "man"]
    assert sentence.arcs == (Arc(1, 2, "dep"), Arc(2, 0, "dep"))
    assert sentence.mentions == (Mention("e1", 1, 3, 2),)


# English Web Treebank, development part, sentences of 5 to 30 words: the share of the commonest offset from a
# word to its head, measured by other code than this; subtypes (nsubj:pass) counted with their relation
OFFSETS = {"obj": 0.351, "det": 0.597, "case": 0.390, "nsubj": 0.344, "nmod": 0.236}
OFFSETS |= {"aux": 0.542, "amod": 0.746, "compound": 0.769, "obl": 0.197}


def commonest_offsets(sentences):
    offsets = defaultdict(Counter)
    for sentence in sentences:
        for arc in sentence.arcs:
            offsets[arc.relation.partition(":")[0]][arc.head - arc.dependent] += 1
    return {relation: max(seen.values()) / seen.total() for relation, seen in offsets.items()}


def test_the_commonest_offset_by_hand(tmp_path):
    [sentence] = read_conllu(treebank(tmp_path, *TALK))
    assert commonest_offsets([sentence, sentence])["nsubj"] == 1 / 2  # 3 words on, and 1


def test_the_english_web_treebank():
    if "HEADWISE_DATA" not in os.environ:
        return
    sentences = read_conllu(Path(os.environ["HEADWISE_DATA"], "en_ewt-ud-dev.conllu"))
    assert len(sentences) == 2001
    assert sum(len(sentence.words) for sentence in sentences) == 25147
    usual = [sentence for sentence in sentences if 5 <= len(sentence.words) <= 30]
    assert len(usual) == 1392
    found = commonest_offsets(usual)
    assert {relation: found[relation] for relation in OFFSETS} == pytest.approx(OFFSETS, abs=0.0005)
