"""Files are written whole or not at all."""

import os
import stat

import pytest

from headwise.core import HeadwiseError
from headwise.core.figures import check_picture, new_figure, save_figure
from headwise.core.files import check_writable, replacing


def test_a_failure_while_writing_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail_halfway():
        with replacing(path, who="save") as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_success_replaces_the_old_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with replacing(path, who="save") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".json"
        assert path.read_text() == "old"
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_written_file_has_the_usual_permissions(tmp_path):
    with replacing(tmp_path / "a", who="save") as temporary:
        temporary.write_text("x")
    (tmp_path / "b").write_text("x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "b").stat().st_mode)


def test_checking_a_path_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "a.png", who="save")
    check_picture(tmp_path / "a.png", who="save")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["missing/a.png", "."])
def test_a_path_that_cannot_be_written_is_refused_before_anything_is(tmp_path, path):
    with pytest.raises(HeadwiseError, match="the output path must be a file in a folder that can be written"):
        check_writable(tmp_path / path, who="save")
    assert os.listdir(tmp_path) == []


def test_a_picture_that_fails_to_draw_leaves_nothing_behind(tmp_path):
    with new_figure(2, 2, who="plot") as figure:
        figure.subplots().set_title("$\\broken{$")
    with pytest.raises(ValueError, match="broken"):
        save_figure(figure, tmp_path / "a.png", who="plot")
    assert os.listdir(tmp_path) == []
