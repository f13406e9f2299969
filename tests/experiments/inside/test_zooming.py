"""zoom: a saved window against the model's own eager weights, its page, and what it refuses."""

import dataclasses
import json

import pytest

from headwise import look
from headwise.core import HeadwiseError
from headwise.experiments import inspect_text, zoom
from headwise.experiments.inside.window_view import HeatMap
from tests.experiments.faces import check_face, check_json, check_picture
from tests.experiments.inside.conftest import TEXT
from tests.experiments.inside.models import causal_model


def test_every_weight_is_the_models_own(inspected, minilm):
    dense = minilm.read(TEXT).weights.double()
    window = zoom(inspected.saved, "3.5", queries="4:11", keys="2:20")
    expected = dense[3, 5, 4:11, 2:20]
    assert len(window.weights) == 7
    for row, wanted in zip(window.weights, expected.tolist(), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)  # two float32 computations of weights of at most 1
    assert window.inside == pytest.approx(expected.sum(-1).tolist(), abs=1e-5)
    rows = dense[3, 5, 4:11]
    entropy = -(rows * rows.clamp(min=1e-300).log()).sum(-1)
    assert window.entropy == pytest.approx(entropy.tolist(), abs=1e-4)


def test_tokens_are_those_of_the_text(inspected, minilm):
    tokens = minilm.read(TEXT).tokens
    window = zoom(inspected.saved, (0, 2), queries=slice(3, 9))
    assert window.query_tokens == tokens[3:9]
    assert window.key_tokens == tokens[3:9]
    # head 0.2 looks at the token before: the strongest pair is one of neighbours
    pair = window.strongest[0]
    assert pair.key == pair.query - 1
    assert (pair.query_token, pair.key_token) == (tokens[pair.query], tokens[pair.key])


def test_a_key_that_takes_most_is_named_and_left_out_of_the_pairs(inspected):
    head = inspected.highest("first", 1)[0]
    window = zoom(inspected.saved, f"{head.layer}.{head.head}")
    assert window.left_out == 0
    assert all(pair.key != 0 for pair in window.strongest)
    assert 'without key 0 "[CLS]"' in str(window)


def test_without_a_window_it_is_the_first_64(inspected):
    window = zoom(inspected.saved, "0.0")
    assert (window.first_query, window.first_key) == (0, 0)
    assert len(window.weights) == len(window.weights[0]) == inspected.tokens


def test_the_page_json_and_picture(inspected, tmp_path):
    window = zoom(inspected.saved, "3.5", queries="4:11", keys="2:20")
    check_face(
        window,
        "Head 3.5: queries 4:11, keys 2:20",
        '"ref"',
        "The strongest pairs",
        "in nats",
        coloured=True,
    )
    data = check_json(window)
    assert data["weights"][0][0] == window.weights[0][0]
    check_picture(window, tmp_path)


def test_keys_are_read_downwards(inspected):
    lines = str(zoom(inspected.saved, "3.5", queries="1:3", keys="1:5")).splitlines()
    ruler = next(number for number, line in enumerate(lines) if line.rstrip().endswith("H   in"))
    heading = lines[ruler - 8 : ruler]
    column = [line.ljust(80)[22] for line in heading]
    assert "".join(column).strip() == "charge"


def test_a_large_window_shows_the_largest_of_each_cell(inspected, tmp_path):
    window = zoom(inspected.saved, "3.5", queries="0:4", keys="0:4")
    many = [[0.001] * 100 for _ in range(60)]
    many[59][99] = 0.9
    large = dataclasses.replace(
        window,
        length=100,
        weights=many,
        query_tokens=["a"] * 60,
        key_tokens=["b"] * 100,
        entropy=[1.0] * 60,
        inside=[0.5] * 60,
        left_out=None,
    )
    check_face(large, "the largest of 2 x 3 weights", coloured=True)
    assert HeatMap(large, 0.9).levels[-1][-1] == 1.0
    check_picture(large, tmp_path)


def test_a_recording_without_token_text_says_so(inspected, tmp_path):
    recording = look.load(inspected.saved)
    recording.tokens = []
    look.save(recording, tmp_path / "bare")
    window = zoom(tmp_path / "bare", "3.5", queries="0:5")
    check_face(window, "no token text", coloured=True)
    (tmp_path / "picture").mkdir()
    check_picture(window, tmp_path / "picture")


def test_grouped_heads_read_their_own_keys(minilm, tmp_path):
    model = causal_model(minilm, attn_implementation="eager")
    dense = model.read(TEXT).weights.double()
    inspect_text(causal_model(minilm), TEXT, save=tmp_path / "r")
    for head in range(4):
        window = zoom(tmp_path / "r", (1, head), queries="2:9", keys="0:9")
        assert window.kv_head == head // 2
        for row, wanted in zip(window.weights, dense[1, head, 2:9, :9].tolist(), strict=True):
            assert row == pytest.approx(wanted, abs=1e-5)
    assert "key/value head 1" in str(window)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"head": "9.0"}, "0 to 5, or one of their names, got 9"),
        ({"head": "3.12"}, "the head must be 0 to 11, got 12"),
        ({"head": "three"}, "a layer and a number from 0"),
        ({"head": ["0.0", "0.1"]}, "the head must be one head, got 2 heads"),
        ({"queries": "0:99"}, "queries must be a range within 0:21, got 0:99"),
        ({"queries": "0:22"}, "queries must be a range within 0:21, got 0:22"),
        ({"queries": "5:5"}, "got 5:5"),
        ({"keys": "7:3"}, "keys must be a range within 0:21, got 7:3"),
        ({"keys": "a:b"}, "two numbers as in 100:160, got 'a:b'"),
        ({"keys": slice(0, 8, 2)}, "keys must be a range within 0:21"),
        ({"text": 1}, "queries and keys of text 1 must be kept"),
    ],
)
def test_what_is_not_there_is_refused(inspected, options, words):
    head = options.pop("head", "3.5")
    with pytest.raises(HeadwiseError) as caught:
        zoom(inspected.saved, head, **options)
    assert words in str(caught.value)


def test_a_window_of_a_million_weights_is_the_limit(minilm, tmp_path, monkeypatch):
    from headwise.experiments.inside import zooming

    inspect_text(minilm, TEXT, save=tmp_path / "r")
    monkeypatch.setattr(zooming, "_MOST", 100)
    with pytest.raises(HeadwiseError, match="at most 100 weights, got 121"):
        zoom(tmp_path / "r", "0.0", queries="0:11")


def test_damage_is_one_line(minilm, tmp_path):
    folder = tmp_path / "r"
    inspect_text(minilm, TEXT, save=folder)
    kept = next(iter(folder.glob("kept-*")))
    kept.write_bytes(kept.read_bytes()[:50])
    failures = []
    for layer in range(6):
        try:
            zoom(folder, (layer, 0))
        except HeadwiseError as error:
            failures.append(str(error))
    assert len(failures) == 1
    assert "there and whole" in failures[0]
    (folder / "recording.safetensors").write_bytes(b"half")
    with pytest.raises(HeadwiseError, match="a whole recording"):
        zoom(folder, "0.0")


def test_a_recording_without_queries_and_keys_says_how_to_keep_them(fused, tmp_path):
    recording = look.load(inspect_text(fused, TEXT, save=tmp_path / "r").saved)
    recording.kept = []
    look.save(recording, tmp_path / "r")
    with pytest.raises(HeadwiseError, match="must be kept"):
        zoom(tmp_path / "r", "0.0")


def test_markup_in_tokens_is_shown_as_it_is(fused, tmp_path):
    inspect_text(fused, "[bold] cat [/bold] $x$", save=tmp_path / "r")
    window = zoom(tmp_path / "r", "0.0")
    assert '"["' in str(window)
    json.loads(window.to_json())
    (tmp_path / "picture").mkdir()
    check_picture(window, tmp_path / "picture")
