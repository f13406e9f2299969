"""Alignment with gold links made by hand, whose answers are worked out by hand."""

import math
from itertools import permutations

import pytest
import torch

from headwise.core import AttentionMap, HeadwiseError
from headwise.look.roles.alignment import LinkedText, alignment, chosen_keys
from tests.look.roles.test_monotonicity import map_of


def text(*chosen, sure, possible=None, group=None):
    return LinkedText(
        torch.tensor(chosen),
        torch.tensor(sure).reshape(-1, 2),
        None if possible is None else torch.tensor(possible),
        None if group is None else torch.tensor(group),
    )


def test_the_largest_weight_among_the_keys_that_count():
    p = map_of([[0.1, 0.6, 0.3], [0.4, 0.4, 0.2], [1, 0, 0]])
    assert chosen_keys(p).tolist() == [[[1, 0, 0]]]
    assert chosen_keys(p, keys=torch.tensor([True, False, True])).tolist() == [[[2, 0, 0]]]
    assert chosen_keys(p, torch.tensor([2, 0])).tolist() == [[[0, 1]]]
    sharp = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 3, 2)
    hidden = AttentionMap(*sharp, bias=torch.tensor([[[[0.0, -1e4, -1e4]]]]))
    assert chosen_keys(hidden, keys=torch.tensor([False, True, True])).tolist() == [[[-1]]]


def test_error_rate_of_och_and_ney_by_hand():
    """Rows 0, 1, 2; sure 0-0 and 1-2, possible 1-1 and 2-1 besides."""
    heads = [[0, 2, 1], [0, 1, 1], [1, 0, 0], [0, 2, -1]]
    found = alignment([text(*heads, sure=[[0, 0], [1, 2]], possible=[[1, 1], [2, 1]])], draws=1)
    # |A and S|, |A and P| of |A| and |S| = 2: (2, 3) of 3; (1, 3) of 3; (0, 0) of 3; (2, 2) of 2
    expected = [1 - 5 / 5, 1 - 4 / 5, 1.0, 1 - 4 / 4]
    assert found.error_rate.tolist() == pytest.approx(expected, abs=1e-12)
    assert found.accuracy.tolist() == [1.0, 0.5, 0.0, 1.0]  # of the two rows with a sure link
    assert (found.rows, found.texts) == (2, 1)


def test_links_go_from_row_to_key_and_not_back():
    """Sure 0-1 and 1-2: a head that looks at 1 and 2 is right, one with the pairs turned round is not."""
    found = alignment([text([1, 2, 0], [2, 0, 1], sure=[[0, 1], [1, 2]])], draws=1)
    assert found.accuracy.tolist() == [1.0, 0.0]


def test_a_row_with_two_sure_links_is_right_with_either():
    found = alignment([text([0, 1], [1, 1], sure=[[0, 0], [0, 1], [1, 1]])], draws=1)
    assert found.accuracy.tolist() == [1.0, 1.0]
    # 2 links made of 3 sure ones, both right
    assert found.error_rate.tolist() == pytest.approx([1 - 4 / 5] * 2, abs=1e-12)


def test_texts_are_taken_together_and_left_out_one_at_a_time():
    texts = [
        text([0, 1, 2], sure=[[0, 0], [1, 1], [2, 2]]),
        text([0, 0], sure=[[0, 0], [1, 1]]),
        text([5], sure=[[0, 0]]),
    ]
    found = alignment(texts, draws=1)
    assert found.accuracy.item() == pytest.approx(4 / 6, abs=1e-12)
    without = [1 / 3, 3 / 4, 4 / 5]
    mean = sum(without) / 3
    error = math.sqrt(2 / 3 * sum((value - mean) ** 2 for value in without))
    assert found.accuracy_error.item() == pytest.approx(error, abs=1e-12)


def test_one_text_leaves_out_rows():
    """Accuracy 2 of 3: the jackknife of a mean is its standard error, sqrt(2/9 / 2)."""
    found = alignment([text([0, 1, 0, 0], sure=[[0, 0], [1, 1], [2, 2]])], draws=1)
    without = [1 / 2, 1 / 2, 1.0, 2 / 3]  # the fourth has no link
    mean = sum(without) / 4
    error = math.sqrt(3 / 4 * sum((value - mean) ** 2 for value in without))
    assert found.accuracy_error.item() == pytest.approx(error, abs=1e-12)


def test_p_by_counting_all_orders():
    """Best of two heads over all 24 orders of 4 links, counted here one by one."""
    heads = [[0, 1, 2, 3], [0, 1, 0, 1]]
    best = [
        max(sum(head[i] == order[i] for i in range(4)) for head in heads) for order in permutations(range(4))
    ]
    found = alignment([text(*heads, sure=[[i, i] for i in range(4)])], draws=1500)
    assert found.accuracy.tolist() == [1.0, 0.5]
    for head, right in enumerate((4, 2)):
        share = sum(value >= right for value in best) / 24
        four_errors = 4 * math.sqrt(share * (1 - share) / 1500) + 1 / 1500
        assert found.accuracy_p[head].item() == pytest.approx(share, abs=four_errors)
        assert found.error_rate_p[head].item() == pytest.approx(share, abs=four_errors)


def test_links_stay_in_their_group_and_text():
    """Where each group holds one row, or equal links, dealing anew changes nothing: p is 1."""
    links = [[0, 0], [1, 1], [2, 2]]
    found = alignment([text([0, 1, 2], sure=links, group=[4, 7, 5])], draws=50)
    assert found.accuracy_p.tolist() == [1.0]
    apart = [text([0], sure=[[0, 0]]), text([1], sure=[[0, 1]])]
    assert alignment(apart, draws=50).accuracy_p.tolist() == [1.0]
    mixed = text([0, 1, 2, 3], sure=[[i, i] for i in range(4)], group=[0, 1, 0, 1])
    # two pairs, each as found or swapped: all right in a quarter
    share = alignment([mixed], draws=1500).accuracy_p.item()
    assert share == pytest.approx(0.25, abs=4 * math.sqrt(3 / 16 / 1500) + 1 / 1500)


@pytest.mark.parametrize(("row", "key"), [(3, 0), (-1, 0), (0, -1)])
@pytest.mark.parametrize("kind", ["sure", "possible"])
def test_a_link_to_what_is_not_there_is_refused(row, key, kind):
    links = {"sure": [[0, 0]], "possible": [[0, 0]]}
    links[kind] = [[0, 0], [row, key]]
    good = text([0, 1, 2], sure=[[0, 0]])
    with pytest.raises(
        HeadwiseError, match=rf"a link of text 1 must be a row from 0 to 2 .*got \({row}, {key}\)"
    ):
        alignment([good, text([0, 1, 2], **links)], draws=1)
