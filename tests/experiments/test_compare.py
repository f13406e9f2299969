import json

import pytest

from headwise.experiments import compare

A, B = "the charge exceeded the refund", "the refund exceeded the charge"
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def compared(minilm):
    return compare(A, B, model=minilm)


def test_it_shows_both_parts_within_80_columns(compared):
    text = str(compared)
    assert text.index("1  Without a model") < text.index("2  In a trained model")
    assert all(len(line) <= 80 for line in text.splitlines())


def test_json_holds_both_parts_and_every_head(compared):
    data = json.loads(compared.to_json())
    assert data["without_model"]["sentence_a"] == A
    assert len(data["in_model"]["with_positions"]["heads"]) == 72


def test_without_a_model_there_is_one_part():
    result = compare(A, B)
    assert result.in_model is None
    assert "trained model" not in str(result)


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_it_draws_itself(tmp_path, ending):
    path = compare("cat bites dog", "dog bites cat").plot(tmp_path / f"out{ending}")
    assert path.stat().st_size > 5000


def test_it_draws_the_model_too(tmp_path, compared):
    path = compared.plot(tmp_path / "out.png")
    assert path.read_bytes().startswith(PNG)
    panels = [axes.get_title(loc="left") for axes in compared.figure().axes]
    assert any("each head moved" in title for title in panels)


def test_letters_the_font_lacks_cost_no_warning(tmp_path):
    compare("\u6211 \u7231 \u4f60", "\u4f60 \u7231 \u6211").plot(tmp_path / "out.png")


@pytest.mark.parametrize("other", ["cat bites dog", "Cat  bites dog"])
def test_two_texts_that_the_model_reads_alike(minilm, tmp_path, other):
    result = compare("Cat bites dog", other, model=minilm)
    assert "To this model A and B are the same text" in str(result)
    result.plot(tmp_path / "out.png")


def test_a_dollar_in_a_sentence_is_no_formula(tmp_path):
    compare("pay $5 or $6", "pay $6 or $5").plot(tmp_path / "out.png")
