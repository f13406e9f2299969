"""Head counts: what the tutorials say about them, counted and measured."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headwise.core import HeadwiseError
from headwise.experiments import compare_head_counts
from headwise.experiments.heads import _layers
from headwise.experiments.timing import seconds_interleaved
from tests.experiments.faces import check_face, check_json, check_picture


@pytest.fixture(scope="module")
def report():
    return compare_head_counts(512, [1, 2, 4, 8, 16], length=64, repeats=2)


def test_parameters_are_the_same_for_every_count(report):
    assert [count.heads for count in report.counts] == [1, 2, 4, 8, 16]
    # four projections of 512 x 512 and their biases
    assert {count.parameters for count in report.counts} == {4 * (512 * 512 + 512)} == {1_050_624}


def test_multiply_adds_are_the_same_for_every_count(report):
    # 64 tokens through four 512 x 512 matrices; 64 x 64 scores of 512 products in all heads; values alike
    assert {count.multiply_adds for count in report.counts} == {4 * 64 * 512 * 512 + 2 * 64 * 64 * 512}


def test_multiply_adds_are_what_torch_counts(report):
    layer = _layers(512, [1, 8], seed=0)[1]
    # the fused kernel of a CPU is not counted, the one that multiplies step by step is
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        layer(torch.zeros(1, 64, 512))
    assert counter.get_total_flops() == 2 * report.counts[3].multiply_adds  # a product and a sum are two


def test_more_heads_are_narrower_and_reach_a_lower_rank(report):
    assert [count.head_dim for count in report.counts] == [512, 256, 128, 64, 32]
    assert [count.rank_bound for count in report.counts] == [64, 64, 64, 64, 32]
    assert [count.rank for count in report.counts] == [64, 64, 64, 64, 32]
    assert [count.softmax_weights for count in report.counts] == [64 * 64 * h for h in (1, 2, 4, 8, 16)]


@pytest.mark.parametrize(("model_dim", "heads", "head_dim"), [(12, 4, 3), (64, 8, 8)])
def test_the_tutorials_heads(model_dim, heads, head_dim):
    one, many = compare_head_counts(model_dim, [heads], length=20, repeats=1).counts
    assert (one.heads, one.head_dim) == (1, model_dim)
    assert (many.heads, many.head_dim, many.rank) == (heads, head_dim, head_dim)


def test_every_count_holds_the_very_same_weights():
    one, four = _layers(12, [1, 4], seed=3)
    assert one.query.weight.data_ptr() == four.query.weight.data_ptr()
    assert four.output.weight.requires_grad


def test_the_random_numbers_of_the_caller_stay_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    compare_head_counts(12, [4], length=4, repeats=1)
    assert torch.equal(torch.rand(3), expected)


def test_times_are_ratios_to_one_head_in_the_same_round(report):
    one = report.counts[0]
    assert (one.ratio, one.ratio_low, one.ratio_high) == (1.0, 1.0, 1.0)
    for count in report.counts:
        assert 0 < count.ratio_low <= count.ratio <= count.ratio_high


def test_rounds_are_interleaved_and_the_first_does_not_count():
    order = []
    calls = [lambda: order.append("a"), lambda: order.append("b"), lambda: order.append("c")]
    assert seconds_interleaved(calls, 2, doing="calling").shape == (2, 3)
    assert "".join(order) == "abc" + "bca" + "cab"


def test_no_progress_bar_where_nobody_watches(capfd):
    compare_head_counts(12, [4], length=4, repeats=3)
    assert capfd.readouterr() == ("", "")


def test_page_json_and_picture(report, tmp_path):
    check_face(report, "1,050,624", "32 of 64", "65,536", "on this machine", "must divide", "narrower heads")
    read = check_json(report)
    assert read["counts"][4]["ratio"] == report.counts[4].ratio
    check_picture(report, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"heads": [7]}, "each number of heads must be a divisor of model_dim=512, got 7."),
        ({"heads": [7]}, "Use 4 or 8."),
        ({"heads": [1024]}, "got 1024. Each head gets an equal share of the dimensions. Use 512."),
        ({"heads": [0]}, "each number of heads must be a whole number of at least 1, got 0"),
        ({"heads": [-8]}, "got -8"),
        ({"model_dim": 0}, "model_dim must be a whole number of at least 1, got 0"),
        ({"model_dim": 10**6}, "model_dim must be at most 8,192, got 1,000,000"),
        ({"length": 0}, "length must be a whole number of at least 1, got 0"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_input_is_one_line(arguments, said):
    with pytest.raises(HeadwiseError) as raised:
        compare_head_counts(**arguments)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
