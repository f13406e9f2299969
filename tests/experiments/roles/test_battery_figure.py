"""The picture of a battery made by hand."""

import pytest

from headwise.experiments.roles.role_names import FAMILIES
from tests.experiments.roles.batteries import ROLES, UP, battery, role, score


def panels(result):
    first, second = result.figure().subfigs
    return first.axes[0], second.axes[0]


def test_the_grid_has_each_role_as_a_colour_and_as_letters():
    grid, _ = panels(battery())
    letters = {text.get_position(): text.get_text() for text in grid.texts}
    assert letters[(1, 0)] == "obj>"
    assert letters[(3, 1)] == "pron"
    assert len(letters) == 7
    colours = {patch.get_xy(): patch.get_facecolor() for patch in grid.patches}
    assert colours[(0.5, -0.5)] != colours[(-0.5, -0.5)]
    assert colours[(0.5, -0.5)] == colours[(1.5, 0.5)]  # obj and case are both syntax
    assert colours[(1.5, -0.5)] == (1, 1, 1, 1)
    assert (grid.get_xlabel(), grid.get_ylabel()) == ("head", "layer")
    assert grid.get_ylim()[0] > grid.get_ylim()[1]  # layers go down, as in the terminal


def test_the_legend_names_the_kinds_that_are_there():
    first, _ = battery().figure().subfigs
    names = [text.get_text() for text in first.legends[0].get_texts()]
    assert names == ["position", "sinks", "syntax", "coreference", "meaning", "no role"]


def test_each_held_role_is_a_dot_beside_its_rivals():
    _, dots = panels(battery([role("obj" + UP, "syntax", score("0.1", 0.737, 0.351, 0.2))]))
    assert [label.get_text() for label in dots.get_yticklabels()] == ["obj, dependent to head [obj>]  0.1"]
    marks = {line.get_marker(): line.get_xdata()[0] for line in dots.lines if len(line.get_xdata()) == 1}
    assert marks == {"o": 0.737, "|": 0.351, "x": 0.2}
    assert pytest.approx([0.707, 0.767]) in [list(line.get_xdata()) for line in dots.lines]


def test_without_a_role_it_says_so():
    _, dots = panels(battery([one for one in ROLES if not one.heads], [["none"] * 4] * 2))
    assert [text.get_text() for text in dots.texts] == ["No head holds a role."]


@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (30, 9), (12, 12), (1, 1)])
def test_letters_stay_in_their_places_and_in_the_picture(layers, heads):
    name = "nummod" + UP
    rows = [[name] * heads for _ in range(layers)]
    figure = battery(
        [role(name, "syntax", score("0.0", 0.8))], rows, data=["a long name.conllu"] * 12
    ).figure()
    figure.draw_without_rendering()
    grid = figure.subfigs[0].axes[0]
    place = grid.patches[0].get_window_extent()
    assert all(text.get_window_extent().width < place.width for text in grid.texts)
    whole = figure.bbox
    assert figure._suptitle.get_window_extent().x1 <= whole.x1
    for panel in figure.subfigs:
        for text in (*panel.axes[0].get_yticklabels(), panel.axes[0]._left_title):
            box = text.get_window_extent()
            assert whole.x0 <= box.x0
            assert box.x1 <= whole.x1


def test_it_is_saved(tmp_path):
    assert battery().plot(tmp_path / "roles.png").read_bytes().startswith(b"\x89PNG")


def test_every_kind_has_a_colour_of_its_own():
    assert len(set(FAMILIES.values())) == len(FAMILIES) == 8
