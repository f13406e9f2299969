"""inspect: every head's figures against those of the model's own eager weights, and the page."""

import dataclasses
import io

import pytest
import torch
from rich.console import Console

from headwise.core import HeadwiseError
from headwise.experiments import inspect_text
from headwise.experiments.inside.inspection import UNITS
from headwise.experiments.inside.sinks import sinks_of
from headwise.look.recordings.sums import STATISTICS, Sums
from headwise.models import Model
from tests.experiments.faces import check_face, check_json, check_picture
from tests.experiments.inside.conftest import TEXT
from tests.experiments.inside.models import causal_model


@pytest.fixture(scope="module")
def dense(minilm):
    """The model's own weights, computed the slow way, in float64."""
    return minilm.read(TEXT).weights.double()


def test_statistics_are_those_of_the_weights_that_the_model_itself_gives(inspected, dense):
    layers, heads, length, _ = dense.shape
    places = torch.arange(length)
    far = (places[:, None] - places).abs().double()
    expected = {
        "entropy": -(dense * dense.clamp(min=1e-300).log()).sum(-1).mean(-1),
        "confidence": dense.amax(-1).mean(-1),
        "distance": (dense * far).sum(-1).mean(-1),
        "self": dense.diagonal(dim1=2, dim2=3).mean(-1),
        "previous": dense.diagonal(offset=-1, dim1=2, dim2=3).mean(-1),
        "next": dense.diagonal(offset=1, dim1=2, dim2=3).mean(-1),
        "first": dense[..., 0].mean(-1),
        "special": (dense[..., 0] + dense[..., -1]).mean(-1),
    }
    assert len(inspected.heads) == layers * heads
    for head in inspected.heads:
        for name, table in expected.items():
            # two float32 computations of weights of at most 1; distances are up to `length` times as large
            assert head.mean(name) == pytest.approx(float(table[head.layer, head.head]), abs=1e-4)
            assert head.statistics[name].standard_error == 0.0


def test_sinks_lead_where_the_dense_columns_are_largest(inspected, dense):
    received = dense.mean(2).flatten(0, 1)
    leaders = received.argmax(-1)
    tokens = ["[CLS]", "[SEP]"]
    first = inspected.sinks[0]
    counts = torch.bincount(leaders, minlength=received.shape[1])
    assert first.place == int(counts.argmax())
    assert first.token in tokens
    assert first.leads == int(counts.max())
    assert first.where_it_leads == pytest.approx(
        float(received[leaders == first.place, first.place].mean()), abs=1e-5
    )
    assert first.everywhere == pytest.approx(float(received[:, first.place].mean()), abs=1e-5)
    assert inspected.first_token_heads == int((dense[..., 0].mean(-1) > 0.5).sum())


def test_places_that_few_rows_see_are_no_sinks():
    sums = Sums.empty(heads=2)
    # head 0: 1/4, 2/3, 1/2, 1/1 of the rows that see each; head 1: 3/4, 1/3, 1/2, 1/1
    sums.received = torch.tensor([[1.0, 2.0, 1.0, 1.0], [3.0, 1.0, 1.0, 1.0]]).double()
    sums.could = torch.tensor([4.0, 3.0, 2.0, 1.0]).double()
    first, second = sinks_of([sums], ["a", "b", "c", "d"])
    assert (first.place, first.token, first.leads, first.where_it_leads) == (0, "a", 1, 0.75)
    assert (second.place, second.leads) == (1, 1)
    assert second.where_it_leads == pytest.approx(2 / 3)
    assert second.everywhere == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert sinks_of([sums], ["another", "length"]) == []


def test_the_model_runs_as_it_always_does_and_is_unchanged(fused, inspected):
    assert inspected.coverage.complete
    assert inspected.coverage.seen == {"fused": 6}
    assert inspected.coverage.largest_difference < 1e-5
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in fused.network.modules())


def test_the_page_json_and_picture(inspected, tmp_path):
    check_face(
        inspected,
        "all-MiniLM-L6-v2: ",
        "6 layers of 12 heads",
        "Mean entropy (nats)",
        "nats.",
        "of 72 heads",
        "none missed",
        "headwise zoom",
        coloured=True,
    )
    data = check_json(inspected)
    assert len(data["heads"]) == 72
    assert set(data["heads"][0]["statistics"]) == set(STATISTICS)
    check_picture(inspected, tmp_path)


def test_numbers_stand_on_colour_where_there_is_colour_and_beside_letters_where_not(inspected):
    page = str(inspected)
    lowest = inspected.lowest("entropy", 1)[0]
    row = next(line for line in page.splitlines() if line.startswith(f"{lowest.layer:>5}  "))
    cell = row[7 + 6 * lowest.head :][:5]
    assert cell.endswith("  "), "the lowest has the lightest shade"
    screen = io.StringIO()
    Console(file=screen, width=80, color_system="truecolor", force_terminal=True, no_color=False).print(
        inspected
    )
    assert "48;2;68;1;84" in screen.getvalue()  # the dark end
    assert "48;2;253;231;37" in screen.getvalue()  # the light end
    few = io.StringIO()
    Console(file=few, width=80, color_system="standard", force_terminal=True).print(inspected)
    assert "@" in few.getvalue(), "sixteen colours are too few"


@pytest.mark.parametrize("statistic", STATISTICS)
def test_any_statistic_can_be_in_the_atlas(inspected, statistic):
    check_face(dataclasses.replace(inspected, statistic=statistic), f"Mean {statistic} (", coloured=True)


def test_grouped_heads_are_named_with_the_head_they_read(minilm):
    result = inspect_text(causal_model(minilm), TEXT)
    assert [(head.head, head.kv_head) for head in result.heads[:4]] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    check_face(result, "   kv    0     0     1     1", "which reads key/value head 2", coloured=True)
    assert "next " not in str(result), "a causal head gives the next token nothing"
    check_json(result)


def test_a_sample_says_so_with_its_error(minilm, inspected):
    model = causal_model(minilm)
    exact, sampled = inspect_text(model, TEXT), inspect_text(model, TEXT, rows=6)
    assert not exact.sampled
    assert sampled.sampled
    check_face(sampled, "6 sampled of", "--rows all", "error", coloured=True)
    for head, other in zip(exact.heads, sampled.heads, strict=True):
        value = other.statistics["entropy"]
        assert value.standard_error > 0
        # 6 of 21 rows: within 5 standard errors all but surely
        assert abs(value.mean - head.mean("entropy")) < 5 * value.standard_error


def test_a_statistic_that_no_row_has_is_null_and_said(minilm):
    bare = inspect_text(Model("bare", _Bare()), "3,1,4,1,5")
    assert all(head.statistics["special"] is None for head in bare.heads)
    assert check_json(bare)["heads"][0]["statistics"]["special"] is None
    text = str(dataclasses.replace(bare, statistic="special"))
    assert "No query row of this text has special." in text


class _Bare(torch.nn.Module):
    """A plain model on token numbers."""

    def __init__(self, words=9):
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(words, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, numbers):
        x = self.words(numbers)
        return self.attention(x, x, x)


def test_a_plain_model_takes_token_numbers(tmp_path):
    result = inspect_text(Model("bare", _Bare()), " 3, 1 4,1,5 ", save=tmp_path / "r")
    assert result.tokens == 5
    assert result.sinks[0].token in ("3", "1", "4", "5")
    check_face(result, "bare: 5 tokens, 1 layer of 2 heads", coloured=True)


def test_more_heads_than_numbers_fit_are_letters():
    model = torch.nn.Sequential(torch.nn.Embedding(9, 160), _Wide())
    result = inspect_text(Model("wide", model), "1,2,3")
    page = str(result)
    rows = [line for line in page.splitlines() if line.startswith("    0  ") and '"' not in line]
    assert [len(row.rstrip()) <= 7 + 64 for row in rows] == [True, True]
    check_face(result, coloured=True)


class _Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention = torch.nn.MultiheadAttention(160, 80, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


def test_a_rotary_model_reads_on_beyond_its_length_and_says_so(minilm):
    result = inspect_text(causal_model(minilm, max_position_embeddings=8), TEXT)
    assert result.trained_length == 8
    assert result.tokens > 8
    check_face(result, "longer than the 8 tokens", coloured=True)


def _breaks_late():
    """A model whose second layer fails when the first has been kept."""
    broken = torch.nn.Sequential(_Bare(), _Second())
    torch.nn.init.constant_(broken[1].attention.in_proj_weight, torch.inf)
    return Model("late", broken)


class _Second(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, before):
        x, _ = before
        return self.attention(x, x, x)


def test_a_failed_run_leaves_no_folder_and_no_files(tmp_path):
    with pytest.raises(HeadwiseError, match="first place"):
        inspect_text(_breaks_late(), "1,2", save=tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_an_old_recording_as_it_was(tmp_path):
    folder = tmp_path / "old"
    inspect_text(Model("bare", _Bare()), "1,2,3", save=folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(HeadwiseError):
        inspect_text(_breaks_late(), "1,2", save=folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_units_are_known_for_every_statistic():
    assert tuple(UNITS) == STATISTICS
