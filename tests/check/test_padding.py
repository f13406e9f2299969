"""Pads at either end, and what they hold."""

import pytest
import torch

from headwise.check import Tokens, Vectors, left_padding, pad_content, right_padding


def attend(x, keep, fill=-torch.inf, positions=None):
    """Causal attention of x with itself; a pad sees itself, so that every row has a key."""
    x = x if positions is None else x + positions[..., None]
    visible = keep[:, None] & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    visible = visible | torch.eye(x.shape[1], dtype=torch.bool)
    return (x @ x.mT / x.shape[-1] ** 0.5 + torch.where(visible, 0.0, fill).to(x)).softmax(-1) @ x


def counted(x, keep):
    return attend(x, keep, positions=(keep.cumsum(-1) - 1).clamp(min=0).to(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("check", [right_padding, left_padding, pad_content])
def test_masked_attention_passes(check, dtype):
    assert check(counted, Vectors(8, dtype)).passed


def test_a_mask_that_is_left_out():
    def f(x, keep):
        return attend(x, torch.ones_like(keep)).flip(1).cumsum(1).flip(1)

    report = right_padding(f, Vectors(8))
    assert report.failing.startswith("the output at real place 0 of 1 changes by")
    assert report.failing.endswith("when 1 pad of random content comes after it")


def test_only_huge_pads_outweigh_a_finite_mask():
    report = left_padding(lambda x, keep: attend(x, keep, fill=-1e4), Vectors(8))
    assert "of huge content" in report.failing
    assert not pad_content(lambda x, keep: attend(x, keep, fill=-1e4), Vectors(8)).passed


def test_positions_that_count_the_pads():
    def f(x, keep):
        return attend(x, keep, positions=torch.arange(x.shape[1]).expand(keep.shape).to(x))

    assert right_padding(f, Vectors(8)).passed
    assert left_padding(f, Vectors(8)).failing.endswith("when 1 pad of random content comes before it")


def test_a_fault_of_unequal_rows_names_them():
    report = left_padding(lambda x, keep: counted(x, keep[:1].expand_as(keep)), Vectors(8))
    assert "in a batch of rows of 1, 1, 2, padded left to 2 with random content" in report.failing


def test_a_fault_of_many_pads_alone():
    def f(x, keep):
        many = (~keep).sum(-1) > 5
        return counted(x, keep) + many[:, None, None]

    assert right_padding(f, Vectors(8)).failing.endswith("when 7 pads of random content come after it")


def test_not_a_number_in_pads_is_told_and_counts_if_asked():
    report = pad_content(counted, Vectors(8))
    assert report.passed
    assert report.tried.endswith("not-a-number in pads reaches real places, which is not counted")
    counts = pad_content(counted, Vectors(8), nan=True)
    assert counts.failing.endswith("is no longer a finite number when the pad after it is not-a-number")

    def clean(x, keep):
        return counted(x.masked_fill(~keep[..., None], 0.0), keep)

    assert pad_content(clean, Vectors(8), nan=True).passed


def test_token_models():
    table = torch.randn(20, 8)
    f = lambda x, keep: counted(table[x], keep)  # noqa: E731
    for check in (right_padding, left_padding, pad_content):
        report = check(f, Tokens(20))
        assert report.passed
        assert "huge" not in report.tried
        assert "not-a-number" not in report.tried
