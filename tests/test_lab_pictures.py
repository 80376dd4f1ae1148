"""What a claim found is drawn so that every line is seen and named, and dark is always more."""

import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from golden import expect_error
from regard.lab.claims import load_claim
from regard.lab.figures import COLOURS, SIZE, bars, heat, images, lines, maps
from regard.visualization.figures import HUES
from test_figures import assert_legible, boxes_of_words

WORDS = {"title": "Found", "across": "tokens", "up": "cost"}
SAME = {f"line {at}": [1.0, 10.0, 1000.0] for at in range(1, 7)}


def pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] / 255


def share_of(colour: str, picture: np.ndarray) -> float:
    """How much of a picture has a colour, or nearly."""
    return float((np.abs(picture - to_rgb(colour)).max(-1) < 0.04).mean())


def ticks(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("log", ["", "xy"])
def test_lines_that_coincide_are_all_seen_between_their_points_and_named(log):
    figure = lines([64, 256, 1024], SAME, **WORDS, log=log)
    assert_legible(figure)
    (axes,) = figure.axes
    assert axes.get_legend() is None and {text.get_text() for text in axes.texts} == set(SAME)
    drawn = axes.lines[: len(SAME)]
    looks = {(line.get_marker(), str(line._unscaled_dash_pattern)) for line in drawn}
    assert len(looks) == len(SAME) and COLOURS[: len(HUES)] == HUES
    for text in axes.texts:
        text.set_visible(False)  # what is left are lines and their marks
    for line in axes.lines:
        line.set_marker("")
    shown = pixels(figure)
    assert all(share_of(colour, shown) > 2e-4 for colour in COLOURS)


def test_lines_apart_are_of_one_width():
    (axes,) = lines([1, 2, 3], {"a": [1, 2, 3], "b": [3, 1.5, 1]}, **WORDS).axes
    assert len(axes.lines) == 2


def test_names_stand_on_the_right_of_all_lines_and_inside_the_page():
    series = {"a name that takes quite some room": [1, 2, 3], "b": [1, 2, 3.01]}
    figure = lines([1, 2, 3], series, **WORDS)
    assert_legible(figure)
    (axes,) = figure.axes
    end = axes.transData.transform((3, 3))[0]
    assert all(text.get_window_extent().x0 > end for text in axes.texts)


def test_a_line_that_has_gaps_is_named_where_it_ends_and_one_alone_is_not():
    figure = lines([1, 2, 4], {"a": [1, 0.1, math.nan], "b": [1, 1, 0]}, **WORDS, log="y")
    assert_legible(figure)
    assert {text.get_text() for text in figure.axes[0].texts} == {"a", "b"}
    for values in ([5.0], [math.inf], [math.nan]):
        assert not lines([3], {"alone": values}, **WORDS).axes[0].texts
    with expect_error(ValueError):
        lines([1], {str(at): [1] for at in range(7)}, **WORDS)


@pytest.mark.parametrize(
    ("y", "expected"),
    {
        (1e-30, 1e30): ["10⁻²⁷", "10⁻¹⁸", "10⁻⁹", "1", "10⁹", "10¹⁸", "10²⁷"],
        (2e-5, 0.2): ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹"],
        (0.1, 1000): ["0.1", "1", "10", "100", "1,000"],
        (18, 1600): ["20", "50", "100", "200", "500", "1,000", "2,000"],
        (2.1e6, 9e6): ["2·10⁶", "5·10⁶"],
    }.items(),
    ids=str,
)
def test_logarithmic_axes_have_round_numbers_and_nothing_between(y, expected):
    figure = lines([16, 1024], {"a": y}, **WORDS, log="xy")
    (axes,) = figure.axes
    assert ticks(axes.yaxis) == expected
    assert ticks(axes.xaxis) == ["16", "1,024"]
    assert not len(axes.xaxis.get_minorticklocs()) and not len(axes.yaxis.get_minorticklocs())


def test_an_axis_of_few_counts_shows_those_that_have_room():
    x = [2, 4, 8, 16, 32, 64, 128]
    (axes,) = lines(x, {"a": x}, **WORDS).axes
    assert ticks(axes.xaxis) == ["4", "8", "16", "32", "64", "128"]  # the last is always there
    assert_legible(axes.figure)


def test_the_number_on_the_highest_bar_has_room_below_the_words_above():
    for log in (False, True):
        figure = bars({"one": 2e-16, "two": 1.0}, title="T", up="y", log=log, about="Words.")
        assert_legible(figure)
        (axes,) = figure.axes
        boxes = dict(boxes_of_words(figure))
        assert "2·10⁻¹⁶" in boxes and boxes["1"].y1 < axes.get_window_extent().y1
    figure = bars({"none": 0, "less": -3}, title="T", up="y")
    assert_legible(figure)


def test_darker_is_more_in_every_map_and_in_images():
    rising = np.linspace(0, 1, 16).reshape(4, 4)
    for draw in (maps, images):
        figure = draw({"a": rising, "half": rising / 2}, title="T", about="Words.")
        assert_legible(figure)
        for axes in figure.axes:
            (image,) = axes.images
            shades = image.cmap(image.norm(rising.ravel() * image.norm.vmax))[:, :3].mean(-1)
            assert (np.diff(shades) < 0).all() and shades[0] == 1  # from white on
    grey = images({"a": rising}, title="T").axes[0].images[0].cmap([0.3, 0.7])[:, :3]
    np.testing.assert_allclose(np.ptp(grey, axis=-1), 0, atol=0.01)


def test_maps_have_scales_of_their_own_and_say_so_unless_they_share_one():
    pair = {"a": np.eye(3), "half": np.eye(3) / 2, "below": -np.eye(3)}
    own, one = (maps(pair, title="T", one_scale=one) for one in (False, True))
    assert [axes.images[0].get_clim() for axes in own.axes] == [(0, 1), (0, 0.5), (-1, 0)]
    assert {axes.images[0].get_clim() for axes in one.axes} == {(-1, 1)}
    assert any("each has its own scale" in words for words, _ in boxes_of_words(own))
    assert not any("own scale" in words for words, _ in boxes_of_words(one))


@pytest.mark.parametrize("count", range(1, 5))
@pytest.mark.parametrize("shape", [(6, 6), (4, 12), (12, 4)], ids=str)
def test_pages_of_maps_end_where_the_maps_do(count, shape):
    figure = maps({f"map {at}": np.ones(shape) for at in range(count)}, title="T", about="Words.")
    assert_legible(figure)
    lowest = min(axes.get_window_extent().y0 for axes in figure.axes)
    assert lowest < 0.15 * figure.bbox.height + 10 and figure.get_figwidth() == SIZE[0]


def test_long_words_about_a_picture_are_broken_and_move_it_down():
    about = "Some words that go on and on. " * 6
    for figure in (
        lines([1, 2], {"a": [1, 2]}, **WORDS, about=about),
        heat(np.eye(3), title="T", rows=("r", "abc"), columns=("c", "abc"), about=about),
        maps({"a": np.eye(3)}, title="T", about=about),
    ):
        assert_legible(figure)


@pytest.mark.parametrize("name", ["as-identity", "equivariance-proof", "graph", "as-pointwise"])
def test_pictures_of_claims_are_legible_and_speak_of_no_other_colours(name):
    claim = load_claim(name)
    figure = claim.plot(claim.measure())
    assert_legible(figure)
    words = " ".join(words for words, _ in boxes_of_words(figure))
    assert "white" not in words and "black" not in words
