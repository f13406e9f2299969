"""Who is order-blind: known from theory, so every verdict is pinned."""

import pytest
import torch

from headwise import reference
from headwise.core import HeadwiseError
from headwise.experiments import permute_and_compare
from headwise.experiments.equivariance import _layer, _shuffled
from headwise.experiments.named import NAMES
from tests.experiments.faces import check_face, check_json, check_picture

KNOW_ORDER = [name for name in NAMES if name != "none"]


@pytest.fixture(scope="module")
def report():
    return permute_and_compare()


def test_attention_without_position_and_mask_only_permutes(report):
    case = report.case("none")
    assert (case.verdict, case.knows_order) == ("order-blind", False)
    assert case.difference < report.tolerance


@pytest.mark.parametrize("name", KNOW_ORDER)
def test_every_encoding_shows_order(report, name):
    case = report.case(name)
    assert (case.verdict, case.knows_order) == ("knows order", True)
    assert case.difference > 0.01  # far from rounding, not just above it


@pytest.mark.parametrize("name", NAMES)
def test_a_causal_mask_shows_order_with_and_without_encoding(report, name):
    case = report.case(name, "words, causal mask")
    assert case.knows_order
    assert case.difference > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_words_that_keep_their_positions_only_permute(report, name):
    assert not report.case(name, "words and positions").knows_order


@pytest.mark.parametrize("name", NAMES)
def test_only_none_and_alibi_take_a_sentence_for_its_mirror(report, name):
    assert report.case(name, "words, reversed").knows_order == (name not in ("none", "alibi"))


def test_the_tolerance_is_derived_from_the_sizes_and_the_dtype(report):
    # sums of 64 (project), 16 (score), 12 (softmax), 12 (values), 64 (mix) terms, one rounding of 2^-52 each
    assert report.tolerance == (64 + 16 + 12 + 12 + 64) * 2.0**-52
    assert permute_and_compare(dtype=torch.float32).tolerance == (64 + 16 + 12 + 12 + 64) * 2.0**-23


@pytest.mark.parametrize("seed", range(3))
def test_verdicts_hold_in_single_precision_and_for_other_seeds(seed):
    report = permute_and_compare(length=30, model_dim=32, heads=2, seed=seed, dtype=torch.float32)
    for name in NAMES:
        assert report.case(name).knows_order == (name != "none")
        assert not report.case(name, "words and positions").knows_order


def test_the_difference_is_the_references():
    report = permute_and_compare(length=5, model_dim=8, heads=2)
    layer = _layer("sinusoidal", 5, 8, 2, 0, torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 5, 8, generator=generator, dtype=torch.float64)[0].numpy()
    projections = (layer.query, layer.key, layer.value, layer.output)
    weights = [projection.weight.detach().numpy() for projection in projections]

    def attend(words):
        return reference.multi_head_attention(words + reference.positional_encoding(5, 8), *weights, heads=2)

    order = list(report.permutation)
    permuted, expected = attend(x[order]), attend(x)[order]
    difference = ((permuted - expected) ** 2).sum() ** 0.5 / (expected**2).sum() ** 0.5
    # every output is off by no more than the tolerance, and a difference of two is off by twice that
    assert report.case("sinusoidal").difference == pytest.approx(difference, abs=2 * report.tolerance)


@pytest.mark.parametrize("seed", range(20))
def test_the_shuffle_is_neither_the_order_nor_its_mirror(seed):
    order = _shuffled(3, torch.Generator().manual_seed(seed)).tolist()
    assert sorted(order) == [0, 1, 2]
    assert order not in ([0, 1, 2], [2, 1, 0])


def test_the_random_numbers_of_the_caller_stay_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    permute_and_compare(length=3, model_dim=8, heads=2)
    assert torch.equal(torch.rand(3), expected)


def test_page_json_and_picture(report, tmp_path):
    check_face(report, "order-blind", "knows order", "4e-14", *NAMES)
    read = check_json(report)
    assert read["cases"][0]["knows_order"] is False
    assert read["dtype"] == "float64"
    check_picture(report, tmp_path)


def test_the_picture_marks_where_rounding_ends(report):
    axes = report.figure().axes[0]
    assert axes.get_xscale() == "log"
    assert [line.get_xdata()[0] for line in axes.get_lines()] == [report.tolerance]
    assert len(axes.patches) == 3 * len(NAMES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"length": 0}, "length must be a whole number of at least 1, got 0"),
        ({"length": 2}, "length must be at least 3, got 2"),
        ({"length": 5000}, "length must be at most 1,024, got 5,000"),
        ({"model_dim": 0}, "model_dim must be a whole number of at least 1, got 0"),
        ({"heads": 5}, "heads must be a divisor of model_dim=64, got 5"),
        ({"model_dim": 12, "heads": 4}, "head_dim must be even, got 3"),
        ({"dtype": torch.bfloat16}, "dtype must be float32 or float64, got torch.bfloat16"),
    ],
)
def test_bad_input_is_one_line(arguments, said):
    with pytest.raises(HeadwiseError) as raised:
        permute_and_compare(**arguments)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
