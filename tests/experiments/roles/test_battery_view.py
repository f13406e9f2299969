"""The page of a battery made by hand: what it says, and that it fits."""

import json
import re
from dataclasses import replace

from rich.console import Console

from headwise.experiments.roles.battery_view import CAVEAT
from headwise.experiments.roles.head_grid import HeadGrid
from headwise.experiments.roles.role_names import DARK, FAMILIES, codes
from headwise.experiments.roles.sentences import four_sentences
from headwise.look.roles.copying import Copying
from tests.experiments.roles.batteries import DOWN, EVEN, INDUCTION_REMOVED, ROLES, UP, battery, role, score


def flat(result):
    """The page with its lines joined."""
    return " ".join(str(result).split())


def test_the_page_is_80_columns_and_ascii_and_starts_with_the_sentences():
    page = str(battery(sentences=four_sentences(ROLES, {}), confirmed=[INDUCTION_REMOVED]))
    assert all(len(line) <= 80 for line in page.splitlines())
    assert page.isascii()
    title, _, data, _, first, question, *_ = page.splitlines()
    assert title == "small: roles of 2 layers of 4 heads"
    assert data == "14 roles asked of dev.conllu; 97 sense pairs."
    assert first.startswith("What tutorials say")
    assert question == "One head watches syntax?"
    assert page.index("One head watches position?") < page.index("Roles that heads hold")


def test_a_held_role_has_its_head_with_every_figure_beside_it():
    lines = str(battery()).splitlines()
    at = lines.index("syntax, dependent to head: 1,200 rows of dev.conllu")
    assert lines[at + 1].split() == [
        "det",
        "0.0",
        "0.80",
        "0.77",
        "to",
        "0.83",
        "0.60",
        "at",
        "+1",
        "<.001",
        "0.70",
        "0.85",
    ]
    assert lines[at + 5].split() == [
        "obj",
        "0.1",
        "0.74",
        "0.71",
        "to",
        "0.77",
        "0.35",
        "at",
        "-2",
        "<.001",
        "0.64",
        "0.79",
    ]


def test_up_to_three_heads_of_a_role_and_how_many_more():
    page = str(battery())
    det = page[page.index("\ndet ") : page.index("\nobj ")]
    assert re.findall(r"0\.\d(?= {4}0)", det) == ["0.0", "0.1", "0.2"]
    assert "and 1 more" in det


def test_columns_stand_below_each_other():
    lines = str(battery()).splitlines()
    heading = next(line for line in lines if line.startswith("role "))
    rows = [line for line in lines if re.match(r"(nearby|det|obj|pronoun, another word) ", line)]
    assert len(rows) == 4
    assert {len(line) for line in (heading, *rows)} == {79}


def test_position_only_and_nobodys_roles_are_apart_and_short():
    page = flat(battery())
    assert "syntax, dependent to head: amod 0.2 0.79 (0.75 at +1); compound 0.2 0.77 (0.77 at +1)" in page
    assert page.index("Position only") < page.index("amod 0.2") < page.index("Roles that no head holds")
    assert "obl 0.2 0.25 (0.20 at -3)" in page
    assert "mention, another word 0.1 0.30 (0.25 at -1)" in page


def test_what_is_asked_of_control_texts_is_set_against_them():
    assert "meaning 0.3 0.25 0.22 to 0.28 0.08 ctrl" in flat(battery())


def test_the_grid_has_a_code_in_each_place_and_says_what_it_means():
    page = str(battery())
    assert "    0  prev  obj>  .     mean\n    1  sep   near  case> pron\n" in page
    assert "> = from dependent to head; < = from head to dependent; prev = previous token" in flat(battery())
    assert "7 of 8 heads (88 %) hold at least one of these roles, 1 of them only a sink." in flat(battery())


def test_a_grid_of_many_heads_has_letters_in_blocks():
    name = "obj" + UP
    rows = [["none"] * 99 + [name]]
    lines = str(battery([role(name, "syntax", score("0.99", 0.8))], rows)).splitlines()
    places = [line[7:] for line in lines if line.startswith("    0  ")]
    assert places == ["." * 64, "." * 35 + "A"]
    assert "A = obj, dependent to head" in " ".join(lines)


def test_a_grid_of_sixteen_heads_has_short_codes():
    names = [f"{relation}{way}" for relation in ("nsubj", "nmod") for way in (UP, DOWN)]
    roles = [role(name, "syntax", score(f"0.{at}", 0.8)) for at, name in enumerate(names)]
    page = str(battery(roles, [[*names, *["none"] * 12]]))
    assert "    0  ns> ns< nm> nm< .   ." in page
    assert all(len(line) <= 80 for line in page.splitlines())


def test_codes_are_never_the_same():
    names = [f"nsubj{number}{way}" for number in range(20) for way in (UP, DOWN)]
    for width in (1, 3, 5):
        assert len(set(codes(names, width).values())) == len(names)
        assert all(len(code) <= width for code in codes(names, width).values())


def test_letters_can_be_read_on_their_colours():
    """WCAG 2.1: contrast is (L1 + 0.05) / (L2 + 0.05), of relative luminance; large letters need 3."""

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for family, colour in FAMILIES.items():
        there = luminance(colour) + 0.05
        assert (1.05 / there if family in DARK else there / 0.05) > 4.5, family


def test_a_terminal_with_colours_has_them_in_the_grid(capsys):
    console = Console(color_system="256", force_terminal=True, width=80)
    console.print(HeadGrid(battery()))
    assert "\x1b[" in capsys.readouterr().out


def test_a_confirmation_stands_beside_random_heads():
    assert (
        "induction without 18.0, 18.1, 18.2, 18.3, 18.4 and 2 more loss on the repeat, nats per token: 2.700 "
        "before, 12.640 without them, 3.040 without as many random heads of the same layers that do not "
        "hold the role (2.590 to 3.560, 3 draws)."
    ) in flat(battery(confirmed=[INDUCTION_REMOVED]))


def test_a_confirmation_says_that_too_few_other_heads_are_left():
    def said(**changed):
        return flat(battery(confirmed=[replace(INDUCTION_REMOVED, **changed)]))

    assert "3.040 without only 2, as there are no more, random heads of the same layers" in said(
        random_heads=2
    )
    assert "3.040 without only 1, as there is no more, random heads" in said(random_heads=1)
    none = said(random_heads=0, random=[])
    assert "12.640 without them; no other heads of these layers are left to compare with." in none


def test_what_was_left_out_the_caveat_and_the_coverage_end_the_page():
    page = flat(battery())
    assert page.endswith(
        f"labels: Give your own labels with --labels. {CAVEAT} Seen: 2 of 2 attention layers."
    )


def test_copies_are_said_of_the_heads_of_induction_and_explained_where_there_are_any():
    """0.79 above another token's, with an error of 0.05; 0.9 with one of 0.5; 0.2 is below the bar."""
    found = [Copying("0.1", 0.8, 0.05, 0.01, 0.7), Copying("0.2", 0.9, 0.5, 0.01, 0.7)]
    found.append(Copying("0.3", 0.2, 0.01, 0.0, 0.6))
    induction = role("induction", "induction", score("0.1", 0.9), by=EVEN)
    page = flat(battery([replace(induction, copies=found)]))
    assert "copies: 0.1 yes 0.80, 0.2 no 0.90, 0.3 no 0.20" in page
    assert "copies: how far the head's own output raises the logit" in page
    assert "copies" not in flat(battery([induction]))
    there = json.loads(battery([replace(induction, copies=found)]).to_json())
    assert there["roles"][0]["copies"][0] == {
        "head": "0.1",
        "score": 0.8,
        "error": 0.05,
        "null": 0.01,
        "rank": 0.7,
    }


def test_a_battery_that_finds_nothing():
    page = str(battery([one for one in ROLES if not one.heads], [["none"] * 4] * 2, untrained_seed=3))
    assert page.startswith("small with random weights (seed 3): roles of 2 layers of 4 heads\n")
    assert "None of the 8 heads holds any of these roles." in page
    assert "Roles that heads hold" not in page


def test_figures_that_are_not_known_are_dashes():
    unknown = score("0.0", 0.8)
    unknown = type(unknown)(**{**vars(unknown), "value_weighted": float("nan")})
    assert re.search(r"<\.001 +- +0\.85", str(battery([role("mine", "labels", unknown)])))


def test_a_long_name_has_its_own_line():
    name = "a label whose name somebody made very long"
    page = str(battery([role(name, "labels", score("0.0", 0.8))]))
    assert f"\n{name}\n{'':21} 0.0 " in page


def test_json_holds_every_figure():
    there = json.loads(battery().to_json())
    assert there["roles"][3]["heads"][0]["score"] == 0.737
