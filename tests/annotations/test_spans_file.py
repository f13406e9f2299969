"""A user's own labels: spans become words, whatever form the file has."""

import json

import pytest

from headwise.annotations import Link, read_labels

ANN = {
    "text": "Ann Lee can't come, she's ill.",
    "links": [
        {"label": "who", "from": [20, 23], "to": [[0, 7]]},
        {"label": "same", "from": [20, 23], "to": [[26, 29]]},
    ],
    "segments": [{"label": "Bo", "span": [0, 19]}],
    "document": "note",
}
BO = {"text": "Bo ran"}


def test_by_hand(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(ANN))
    [text] = read_labels(path)
    assert [word.text for word in text.words] == [
        "Ann Lee",
        "can't",
        "come",
        ",",
        "she",
        "'",
        "s",
        "ill",
        ".",
    ]
    assert all(text.text[word.start : word.stop] == word.text for word in text.words)
    assert text.links == (Link("who", 4, (0,)), Link("same", 4, (7,)))
    assert text.segments == ("Bo",) * 4 + ("",) * 5
    assert (text.document, text.source) == ("note", f"{path}:1")
    assert text.arcs == text.mentions == text.parts_of_speech == ()


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (json.dumps(ANN) + "\n" + json.dumps(BO) + "\n", [1, 2]),
        (json.dumps([ANN, BO]), [1, 1]),
        ("\n[\n" + json.dumps(ANN) + ",\n\n" + json.dumps(BO) + "\n]\n", [3, 5]),
    ],
)
def test_one_a_line_or_a_list(content, lines, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(content)
    texts = read_labels(path)
    assert [text.text for text in texts] == [ANN["text"], BO["text"]]
    assert [text.source for text in texts] == [f"{path}:{line}" for line in lines]
    assert texts[1].document == "mine.json"
    assert texts[1].links == texts[1].segments == ()
