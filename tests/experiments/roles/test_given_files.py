"""What a user gives: files, or a text itself."""

import json

import pytest

from headwise.core import HeadwiseError
from headwise.experiments.roles.given_files import sources_from
from headwise.experiments.roles.plain_text import plain_sentences

TREE = "\n".join(
    f"{number}\t{word}\t{word}\tX\t_\t_\t{head}\tdep\t_\t_"
    for number, (word, head) in enumerate(
        [("A", 2), ("cat", 3), ("ran", 0), ("away", 3), ("today", 3)], start=1
    )
)


def treebank(folder, name="a.conllu"):
    path = folder / name
    path.write_text(TREE + "\n\n")
    return path


def test_treebanks_and_text_are_one_source_and_labels_another(tmp_path):
    own = tmp_path / "mine.json"
    own.write_text(json.dumps({"text": "It ran.", "links": []}))
    both = [treebank(tmp_path), treebank(tmp_path, "b.conllu")]
    sentences, labels = sources_from(both, "The cat sat on the mat.", own)
    assert sentences.name == "a.conllu and b.conllu and a text of 1 sentence"
    assert [len(one.words) for one in sentences.sentences] == [5, 5, 7]
    assert sentences.sentences[0].arcs
    assert (labels.name, len(labels.labelled)) == ("mine.json", 1)


def test_nothing_given_is_nothing():
    assert sources_from() == []


def test_a_text_file_is_named_with_its_lines(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("\n\nThe cat sat\non the mat. It\nslept.\n\n\nThe end came soon.\n")
    [source] = sources_from(text=str(path))
    assert source.name == "story.txt"
    assert [(one.text, one.source, one.document) for one in source.sentences] == [
        ("The cat sat on the mat.", "story.txt:3", "story.txt paragraph 1"),
        ("It slept.", "story.txt:4", "story.txt paragraph 1"),
        ("The end came soon.", "story.txt:8", "story.txt paragraph 2"),
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('He said "stop." Then he left!', ['He said "stop."', "Then he left!"]),
        ("It cost 3.50 pounds... no more?", ["It cost 3.50 pounds...", "no more?"]),
        ("no end", ["no end"]),
        (" \t\n ", []),
        ("\u4ed6\u8dd1\u3002\u6211\u8d70\u3002", ["\u4ed6\u8dd1\u3002", "\u6211\u8d70\u3002"]),
    ],
)
def test_sentences(text, sentences):
    assert [one.text for one in plain_sentences(text)] == sentences


def test_words_are_their_characters():
    [one] = plain_sentences("A well-known dog's bone,  (don't) ask.")
    assert [word.text for word in one.words] == [
        "A",
        "well-known",
        "dog's",
        "bone",
        ",",
        "(",
        "don't",
        ")",
        "ask",
        ".",
    ]
    assert all(one.text[word.start : word.stop] == word.text for word in one.words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pipeline": "en_core_web_sm"}, "the pipeline for trees must be given with a text"),
        ({"text": "Too short."}, "at least one sentence of 5 to 30 words, got 1 of other lengths"),
        ({"text": "word " * 40}, "at least one sentence of 5 to 30 words"),
        ({"text": "none.txt"}, "There is no file of that name"),
        ({"treebanks": ["none.conllu"]}, "none.conllu:1: the file must be a CoNLL-U file that can be read"),
        ({"labels": "none.json"}, "none.json:1: the file must be a JSON file that can be read"),
    ],
)
def test_bad_files(given, words):
    with pytest.raises(HeadwiseError) as caught:
        sources_from(**given)
    assert words in str(caught.value)
