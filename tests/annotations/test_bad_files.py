"""A bad file is refused in one line that names the file and the line; every such line is read here."""

import pytest

from headwise.annotations import read_conllu, read_labels
from headwise.core import HeadwiseError
from tests.annotations.treebank import row, treebank
from tests.test_messages import MESSAGE

GOOD = [row(1, "a", 2), row(2, "b"), ""]


def entity(value):
    return [*GOOD, row(1, "a", 2), row(2, "b", 0, misc=f"Entity={value}")]


BAD_TREEBANKS = {
    "another file": (["some words"], "a.conllu:1: the line must be 10 columns, got 1. CoNLL-U parts columns with tabs"),
    "a column short": ([*GOOD, row(1)[:-2]], "a.conllu:4: the line must be 10 columns, got 9"),
    "an empty column": ([*GOOD, row(1, "")], "a.conllu:4: the line must be 10 columns, got an empty one among them"),
    "an id twice": ([row(1), row(1)], "a.conllu:2: the id must be 2, got '1'. Words count up from 1"),
    "an id left out": ([row(1), row(3)], "a.conllu:2: the id must be 2, got '3'"),
    "no empty line": ([row(1), row(2, head=1), row(1)], "a.conllu:3: the id must be 3, got '1'", "an empty line parts"),
    "an id that is none": ([row("one")], "a.conllu:1: the id must be 1, got 'one'"),
    "an id of nothing": ([row("_")], "a.conllu:1: the id must be 1, got '_'"),
    "a range elsewhere": ([row(1), row("3-4"), row(2, head=1)], "a.conllu:2: the id must be 2, got '3-4'"),
    "a range backwards": ([row(1), row("2-1")], "a.conllu:2: the id must be 2, got '2-1'"),
    "an empty node elsewhere": ([row(1), row("5.1")], "a.conllu:2: the id must be 2, got '5.1'"),
    "a range without a word": ([*GOOD, row(1), row(2, head=1), row("3-4")], "a.conllu:6: the words of a multiword token must be in the sentence, up to 4, got no word 3. The line of a range"),
    "a range of one word of two": ([row("1-2"), row(1)], "a.conllu:1: the words of a multiword token must be in the sentence, up to 2, got no word 2"),
    "a range twice": ([row("1-2"), row("1-2"), row(1), row(2, head=1)], "a.conllu:2: the id must be 1, got '1-2'"),
    "empty nodes alone": ([*GOOD, row("0.1")], "a.conllu:4: the sentence must be at least one word, got empty nodes alone. A tree has words"),
    "no head": ([*GOOD, row(1, head="_")], "a.conllu:4: the head must be a word's number, or 0, got '_'"),
    "a head below the root": ([row(1, head=-1)], "a.conllu:1: the head must be a word's number, or 0, got '-1'"),
    "a head out of range": ([row(1, head=3), row(2)], "a.conllu:1: the head must be from 0 to 2, got 3. The sentence"),
    "several roots": ([*GOOD, row(1), row(2)], "a.conllu:5: the tree must be one with one root, got 2 words with head 0"),
    "no root": ([row(1, head=2), row(2, head=1)], "a.conllu:1: the tree must be one with one root, got no words"),
    "a circle": (
        [row(1), row(2, head=4), row(3, head=1), row(4, head=5), row(5, head=2)],
        "a.conllu:2: the tree must be free of circles, got a circle of words 2 -> 4 -> 5 -> 2. From each word",
    ),
    "a word that is its own head": ([row(1), row(2, head=2)], "a.conllu:2: ", "got a circle of words 2 -> 2"),
    "comments alone": (["# text = a"], "a.conllu:1: the file must be one with sentences, got comments alone"),
    "an entity that goes on": (entity("(7-person"), "a.conllu:5: Entity must be brackets that pair within a sentence", "Entity 7 begins here and ends nowhere"),
    "an entity that never began": (entity("7)"), "a.conllu:5: Entity must be", "got '7)'. Entity 7 ends here and begins nowhere"),
    "text between brackets": (entity("(7)8"), "a.conllu:5: Entity must be", "got '(7)8'. Text stands outside of the brackets"),
    "empty brackets": (entity("()"), "a.conllu:5: Entity must be", "got '()'"),
    "a head word outside": (entity("(7-a-b-c-d-2-coref)"), "a.conllu:5: the head word of entity 7 must be from 1 to 1, a word of the mention, got '2'"),
    "a second part alone": (entity("(7[2/2]-a)"), "a.conllu:5: Entity must be all parts of a mention, in order, within a sentence, got '(7[2/2]-a'. Part 2 of 2 does not follow a part 1"),
    "a part beyond the last": (entity("(7[1/2]-a)(7[3/2]-a)"), "a.conllu:5: Entity must be all parts", "got '(7[3/2]-a'. Part 3 of 2 does not follow a part 2"),
    "a first part alone": (entity("(7[1/2]-a)"), "a.conllu:5: Entity must be all parts", "Part 2 of 2 stands nowhere in this sentence"),
    "an empty node that opens": ([row(1), row("1.1", misc="Entity=(7-a"), row(2, head=1)], "a.conllu:2: Entity must be brackets that pair", "Entity 7 begins here and ends nowhere"),
    "a head word of no number": (entity("(7-a-b-c-d-x-coref)"), "a.conllu:5: the head word of entity 7 must be", "got 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TREEBANKS)
def test_a_bad_treebank_is_refused_with_its_line(case, tmp_path):
    lines, *fragments = BAD_TREEBANKS[case]
    read_and_refused(read_conllu, treebank(tmp_path, *lines), fragments)


def read_and_refused(read, path, fragments):
    with pytest.raises(HeadwiseError) as caught:
        read(path)
    message = str(caught.value)
    assert MESSAGE.fullmatch(message), message
    assert message.startswith(f"{path}:")
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("read", [read_conllu, read_labels])
@pytest.mark.parametrize(
    ("content", "fragment", "why"),
    [
        (b"", "a.txt:1: the file must be a ", "The file is empty"),
        (b" \n\n", "a.txt:1: the file must be a ", "The file is empty"),
        (
            b"# a\n# b\n\xe9t\xe9\n",
            "a.txt:3: the text must be UTF-8, got the byte 0xe9. It is in another encoding",
            "",
        ),
        (None, "a.txt:1: the file must be a ", "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(read, content, fragment, why, tmp_path):
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    read_and_refused(read, path, [fragment, why])


A_TEXT = '"text": "A cat ran. It hid."'


def link(start=11, stop=13, to="[[2, 5]]", label='"who"'):
    return f'{{"label": {label}, "from": [{start}, {stop}], "to": {to}}}'


def labelled(*links, more=""):
    return f'{{{A_TEXT}, "links": [{", ".join(links)}]{more}}}'


BAD_LABELS = {
    "no JSON": ("word", "a.json:1: the text must be JSON, got a fault at column 1. Expecting value"),
    "a fault on line 3": (f"{labelled()}\n\n{{'text'", "a.json:3: the text must be JSON, got a fault at column 2"),
    "a list without an end": (f"[{labelled()},\n", "a.json:2: the text must be JSON"),
    "an empty list": ("[]", "a.json:1: the file must be one with at least one text, got []. Labels stand as in"),
    "a comma": (",", "a.json:1: the text must be JSON, got a fault at column 1"),
    "commas between objects": (f"{labelled()}\n,,,{labelled()}", "a.json:2: the text must be JSON, got a fault at column 1"),
    "one comma between objects": (f"{labelled()},\n{labelled()}", "a.json:1: the text must be JSON, got a fault at column"),
    "lists in lists": ("\n" + "[" * 200_000, "a.json:2: the text must be JSON, got too many lists or objects within each other"),
    "objects in objects": (f"{labelled()}\n" + '{"a":' * 200_000, "a.json:2: the text must be JSON, got too many lists"),
    "a number too long": (f'[{labelled()},\n{{{A_TEXT}, "document": {"1" * 5000}}}]', "a.json:2: the text must be JSON, got a number of thousands of digits"),
    "half a character": (f'[{labelled()},\n\n{{"text": "a \\ud83d b"}}]', "a.json:3: the text must be JSON, got '\\ud83d', half a character"),
    "half a character in a label": (labelled(link(label='"\\ud83d"')), "a.json:1: the text must be JSON, got '\\ud83d'"),
    "a number": (f"{labelled()}\n5", 'a.json:2: each object must be one with a "text", got 5'),
    "no text": (f"[{labelled()},\n\n {{}}]", 'a.json:3: each object must be one with a "text", got {}'),
    "a text of spaces": ('{"text": " "}', 'each object must be one with a "text"'),
    "links in no list": (f'{{{A_TEXT}, "links": 3}}', 'a.json:1: "links" must be a list, got 3'),
    "a link without an end": (labelled('{"label": "who"}'), 'a link must be an object with "label", "from", and a list "to"'),
    "a link to nothing": (labelled(link(to="[]")), "a link must be an object"),
    "a label that is a number": (labelled(link(label="1")), "a link must be an object"),
    "a span behind the text": (labelled(link(stop=20)), "a span must be [start, stop] around characters within 0 and 18, got [11, 20]"),
    "a span backwards": (labelled(link(stop=11)), "got [11, 11]"),
    "a span of fractions": (labelled(link(stop=12.5)), "got [11, 12.5]"),
    "a span of a space": (labelled(link(start=10, stop=11)), "got [10, 11]"),
    "a span of one number": (labelled(link(to="[2, 5]")), "a span must be", "got 2"),
    "spans that overlap": (labelled(link(to="[[2, 5], [4, 9]]")), "the spans of links must be equal or apart, since each is one word, got [4, 9]"),
    "a document of no name": (labelled(more=', "document": 3'), '"document" must be a name, got 3'),
    "a segment without a span": (labelled(more=', "segments": [{"label": "Bo"}]'), 'a segment must be an object with "label" and "span"'),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_refused_with_their_line(case, tmp_path):
    content, *fragments = BAD_LABELS[case]
    path = tmp_path / "a.json"
    path.write_text(content)
    read_and_refused(read_labels, path, fragments)
