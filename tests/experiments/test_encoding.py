"""The encodings' reports against the published formulas, written anew here."""

import math

import numpy as np
import pytest

from headwise.core import HeadwiseError
from headwise.experiments import examine_encoding, list_encodings
from headwise.experiments.named import BY_DISTANCE, NAMES
from tests.experiments.faces import check_face, check_json, check_picture


def tutorial_table(length: int, dim: int) -> np.ndarray:
    """The tutorial's loops: sine at even dimensions, cosine at odd ones."""
    table = np.zeros((length, dim))
    for p in range(length):
        for i in range(0, dim, 2):
            table[p, i] = math.sin(p / 10000 ** (i / dim))
            table[p, i + 1] = math.cos(p / 10000 ** (i / dim))
    return table


def test_the_sinusoidal_table_is_the_tutorials():
    report = examine_encoding("sinusoidal", length=50, dim=128)
    # two ways to round the angle, at most 49 radians: 49 * 2^-52, a few times over
    assert np.abs(np.array(report.table) - tutorial_table(50, 128)).max() < 1e-13


def test_the_fastest_wave_is_two_pi_and_the_base_sets_the_slowest():
    report = examine_encoding("sinusoidal", length=50, dim=128)
    assert report.wavelengths[0] == pytest.approx(2 * math.pi, rel=1e-15)
    assert report.wavelengths[-1] == pytest.approx(2 * math.pi * 10000 ** (126 / 128), rel=1e-14)
    assert len(report.wavelengths) == 64
    for effect in report.bases:
        assert effect.fastest == pytest.approx(2 * math.pi, rel=1e-15)
        assert effect.slowest == pytest.approx(2 * math.pi * effect.base ** (126 / 128), rel=1e-14)
    assert [effect.base for effect in report.bases] == [100, 10_000, 1_000_000]


@pytest.mark.parametrize(("dim", "base"), [(128, 10000.0), (6, 100.0), (7, 10000.0), (2, 2.5)])
def test_moving_is_a_rotation_wherever_one_stands(dim, base):
    report = examine_encoding("sinusoidal", length=50, dim=dim, base=base)
    # angles below 100 radians are rounded to 2^-47, once in the table and once in the rotation
    assert 0 <= report.law_error < 1e-13


def test_the_law_fails_for_a_table_that_breaks_it():
    from headwise.experiments.encoding.waves import _measure

    table = tutorial_table(100, 8)
    assert _measure(table, 50, 10000.0, tuple(range(50))).error < 1e-13
    table[40, 3] += 1e-6
    assert _measure(table, 50, 10000.0, tuple(range(50))).error > 9e-7
    assert _measure(tutorial_table(100, 8), 50, 9999.0, tuple(range(50))).error > 1e-6


def test_the_dot_product_is_a_sum_of_cosines_of_the_distance():
    report = examine_encoding("sinusoidal", length=30, dim=16)
    for k, product, spread in zip(report.distances, report.products, report.spreads, strict=True):
        expected = sum(math.cos(k / 10000 ** (i / 16)) for i in range(0, 16, 2))
        assert product == pytest.approx(expected, abs=1e-13)  # 16 terms of angles rounded to 2^-48
        assert spread < 1e-13
    assert report.distances == tuple(range(30))


def test_a_lone_sine_spoils_the_dot_product_and_the_page_says_so():
    report = examine_encoding("sinusoidal", length=50, dim=5)
    assert max(report.spreads) > 1e-4
    check_face(report, "Dimension 4 is a sine without its cosine")


def test_integers_grow_with_the_sentence():
    report = examine_encoding("integers", length=50, dim=128)
    assert report.word_norm == pytest.approx(math.sqrt(128))
    for p in range(50):
        assert report.norms[p] == pytest.approx(p * math.sqrt(128), rel=1e-14)
    # over p = 0 .. 49 - k, p (p + k) dim lies between 0 and (49 - k) 49 dim
    assert report.lowest[3] == 0
    assert report.highest[3] == 46 * 49 * 128
    check_face(report, "554.37", "49.00", "drown the words")


def test_a_random_table_has_no_law():
    report = examine_encoding("learned", length=50, dim=128)
    assert np.mean(report.norms) == pytest.approx(math.sqrt(128), rel=0.05)  # 50 norms of deviation 0.7
    assert report.products[0] == pytest.approx(np.mean(np.square(report.norms)))
    # a product of two rows has deviation sqrt(128) = 11.3; 49 of them reach past 1 and hardly past 6 of those
    assert 11.3 < report.highest[1] - report.lowest[1] < 6 * 2 * 11.3
    check_face(report, "not trained", "11.31")


def test_rotary_scores_are_cosines_of_the_distance():
    report = examine_encoding("rotary", length=40, dim=32)
    for k, score in zip(report.distances, report.ones, strict=True):
        assert score == pytest.approx(sum(math.cos(k / 10000 ** (i / 32)) for i in range(0, 32, 2)) / 16)
    assert report.wavelengths[-1] == pytest.approx(2 * math.pi * 10000 ** (30 / 32), rel=1e-14)
    # the mean over 256 directions, whose deviation is below 0.2 each: within 5 * 0.2 / 16
    assert np.abs(np.array(report.random) - np.array(report.ones)).max() < 0.0625


def test_rotary_reads_the_distance_only():
    report = examine_encoding("rotary", length=50, dim=128)
    assert set(report.shift_changes) == {17, 4099}
    # an angle of up to 4,148 radians is rounded to 2^-41, in queries and in keys
    assert 0 < max(report.shift_changes.values()) < 2**-40


def test_alibi_halves_at_ln_2_over_the_slope():
    report = examine_encoding("alibi", length=50)
    assert [one.slope for one in report.per_head] == [2.0**-h for h in range(1, 9)]
    for one in report.per_head:
        assert math.exp(-one.slope * one.half_distance) == pytest.approx(0.5, rel=1e-15)
        assert list(one.added) == [-one.slope * k for k in range(50)]
    assert report.shift_changes == {17: 0.0, 4099: 0.0}
    check_face(report, "1/256", "177.45", "-24.500")


def test_penalties_are_those_of_the_formula():
    report = examine_encoding("sandwich", length=30)
    for one in report.per_head:
        for k, added in zip(report.distances, one.added, strict=True):
            exact = sum(math.cos(k / 10000 ** (w / 64)) for w in range(64)) / one.head
            assert added == pytest.approx(exact, abs=1e-12)
        halved = [k for k in range(30) if one.added[k] - one.added[0] <= -math.log(2)]
        assert one.half_distance == halved[0]
    check_face(report, "Sandwich", "64.000", "only the distance counts")


def test_fire_alone_notices_a_shift():
    for name in BY_DISTANCE:
        changes = examine_encoding(name, length=50).shift_changes
        assert (changes[4099] > 1e-3) == (name == "fire")
        assert changes[17] < 1e-12, "before the threshold not even fire does"


def test_the_list_holds_the_claims_of_every_encoding(tmp_path):
    report = list_encodings()
    claims = {one.name: one for one in report.encodings}
    assert {"ALiBi", "Chain", "Fire", "KerpleLog", "Learned", "T5Bias"} <= claims.keys()
    assert claims["Fire"].relative is False
    assert claims["Learned"].any_length is False
    assert claims["Chain"].acts_on is None
    assert claims["ALiBi"].source == "Press, Smith and Lewis 2021, arXiv 2108.12409, section 3"
    check_face(report, "T5Bias", "1910.10683", "q and k", f"{len(claims)} positional encodings")
    assert len(check_json(report)["encodings"]) == len(claims)
    check_picture(report, tmp_path)


def test_no_encoding_says_so():
    check_face(examine_encoding("none"), "Nothing is added", "order-blind")


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("sinusoidal", ["54,410.14", "6.28", "64.00", "length 50, dim 128"]),
        ("rotary", ["54,410.14", "6.28", "1.000", "0.970"]),
    ],
)
def test_the_page_holds_the_main_figures(name, figures):
    check_face(examine_encoding(name), *figures)


@pytest.mark.parametrize("name", NAMES + BY_DISTANCE)
@pytest.mark.parametrize(("length", "dim"), [(1, 2), (2, 4), (700, 6)])
def test_pages_fit_at_every_size(name, length, dim):
    report = examine_encoding(
        name, length=length, **({} if name in ("alibi", *BY_DISTANCE) else {"dim": dim})
    )
    check_face(report)
    check_json(report)


def test_a_page_fits_at_great_length():
    check_face(examine_encoding("alibi", length=2**20), "-524,288")
    check_face(examine_encoding("rotary", length=2**20, dim=8, base=1e12))


@pytest.mark.parametrize("name", NAMES + BY_DISTANCE)
def test_pictures_and_json(name, tmp_path):
    report = examine_encoding(name, length=20, **({} if name in ("alibi", *BY_DISTANCE) else {"dim": 16}))
    check_picture(report, tmp_path)
    assert check_json(report)["name"] == name


def test_the_heat_map_is_red_blue_with_position_down():
    figure = examine_encoding("sinusoidal", length=20, dim=16).figure()
    axes = figure.axes[0]
    (image,) = axes.get_images()
    assert (image.get_cmap().name, image.get_clim()) == ("RdBu", (-1.0, 1.0))
    assert image.get_array().shape == (20, 16)
    assert axes.yaxis_inverted()
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "embedding dimension",
        "position in the sentence (token)",
    )


def test_an_unwritable_path_leaves_nothing_behind(tmp_path):
    report = examine_encoding("none", length=3)
    with pytest.raises(HeadwiseError, match="output path"):
        report.plot(tmp_path / "missing" / "picture.png")
    with pytest.raises(HeadwiseError, match=r"\.png"):
        report.plot(tmp_path / "picture.bmp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "sizes", "said"),
    [
        ("cosine", {}, "one of none, integers"),
        ("sinusoidal", {"length": 0}, "length must be a whole number of at least 1, got 0"),
        ("sinusoidal", {"length": 5000}, "length must be at most 2,048, got 5,000"),
        ("sinusoidal", {"dim": 0}, "dim must be a whole number of at least 1, got 0"),
        ("sinusoidal", {"dim": 1}, "dim must be at least 2 for sinusoidal, got 1"),
        ("sinusoidal", {"dim": 8.0}, "dim must be a whole number"),
        ("sinusoidal", {"base": -10000.0}, "base must be a finite number above 1, got -10000.0"),
        ("rotary", {"base": math.inf}, "base must be a finite number above 1, got inf"),
        ("rotary", {"base": math.nan}, "base must be a finite number above 1, got nan"),
        ("rotary", {"dim": 7}, "dim must be even for rotary, got 7"),
        ("alibi", {"base": 500.0}, "base must be left out for alibi, got 500.0"),
    ],
)
def test_bad_input_is_one_line(name, sizes, said):
    with pytest.raises(HeadwiseError) as raised:
        examine_encoding(name, **sizes)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
