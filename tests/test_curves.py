"""Curves show every number that was measured, once and where it belongs, and nothing else."""

import math
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from golden import expect_error
from regard.visualization.figure_curves import COLOURS, Gap, best_epoch, curves_figure, fitting, gap
from regard.visualization.figures import GREY, HUES, INK, MUTED, drawing, inches
from test_figures import assert_legible, boxes_of_words

NAN = math.nan


def lines(*epochs: tuple[float, float], **more: float) -> list[dict[str, float | int]]:
    """Metrics as the loop writes them, with these accuracies in training and in validation."""
    return [
        {
            **{
                "epoch": number,
                "step": 10 * number,
                "train/loss": 2.0,
                "lr": 0.1,
                "train_seconds": 1.5,
            },
            **{"val/accuracy": held_out, "val/loss": 2 - held_out},
            **{"train_eval/accuracy": train, "train_eval/loss": 1 - train, **more},
        }
        for number, (train, held_out) in enumerate(epochs, start=1)
    ]


LEARNED = lines((0.3, 0.25), (0.6, 0.5), (0.8, 0.625), (0.95, 0.55))


def drawn(axes) -> dict[str, list[tuple[list[float], list[float]]]]:
    """What a panel shows, by kind: the solid, the dashed, dots and diamonds, with their places."""
    found = {"-": [], "--": [], "o": [], "D": [], "_": []}
    for line in axes.lines:
        marked = line.get_marker() in found
        kind = line.get_marker() if marked else line.get_linestyle()
        x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
        if len(x):
            found[kind].append((x.tolist(), y.tolist()))
    return found


def titles(figure) -> list[str]:
    return [axes.get_title("left") for axes in figure.axes]


def test_every_number_is_drawn_where_it_belongs():
    figure = curves_figure({"a": LEARNED}, [], title="T", marks={"a": {"accuracy": 0.75}})
    assert titles(figure) == ["accuracy", "loss"]
    accuracy, loss = map(drawn, figure.axes)
    np.testing.assert_allclose(accuracy["-"], [([1, 2, 3, 4], [25, 50, 62.5, 55])])
    np.testing.assert_allclose(accuracy["--"], [([1, 2, 3, 4], [30, 60, 80, 95])])
    assert accuracy["o"] == [([3], [62.5])] and accuracy["D"] == [([3], [75])]
    np.testing.assert_allclose(loss["-"][0][1], [1.75, 1.5, 1.375, 1.45])
    np.testing.assert_allclose(loss["--"][0][1], [0.7, 0.4, 0.2, 0.05])
    # The epoch that was kept is the most accurate, also where the loss is shown.
    assert loss["o"] == [([3], [1.375])] and loss["D"] == []


def test_the_legend_names_what_there_is_and_no_more():
    figure = curves_figure({"a": LEARNED}, [], title="T")
    words = [text for text, _ in boxes_of_words(figure)]
    assert {"a", "validation", "train", "best validation accuracy"} <= set(words)
    assert "test, with the weights kept" not in words
    only = [{"epoch": 1, "val/bleu": 20.0}, {"epoch": 2, "val/bleu": 25.0}]
    figure = curves_figure({"b": only}, [], title="T", marks={"b": {"bleu": 24.0}})
    words = [text for text, _ in boxes_of_words(figure)]
    assert {"b", "validation", "best validation bleu", "test, with the weights kept"} <= set(words)
    assert "train" not in words and titles(figure) == ["bleu"]
    assert drawn(figure.axes[0])["-"] == [([1, 2], [20, 25])]  # only accuracies are percentages


@pytest.mark.parametrize("count", range(1, 9), ids="runs={}".format)
def test_each_run_has_its_own_colour_and_words_stay_apart(count):
    runs = {f"größe λ={i}, a name of some length": LEARNED[: 1 + i % 4] for i in range(count)}
    marks = {name: {"accuracy": 0.6, "loss": 1.4} for name in runs}
    figure = curves_figure(runs, [], title="Läufe", marks=marks)
    assert_legible(figure)
    for axes in figure.axes:
        colours = [to_hex(line.get_color()) for line in axes.lines if line.get_marker() == "D"]
        assert sorted(colours) == sorted(COLOURS[:count])


def test_a_test_is_drawn_at_the_epoch_whose_weights_were_kept():
    said = [
        {**line, "is_best": line["epoch"] in (1, 2)} for line in LEARNED
    ]  # the last that says so
    for run, kept in {2: said, 3: LEARNED, 4: [{"epoch": 4, "train_eval/accuracy": 0.5}]}.items():
        figure = curves_figure({"a": kept}, [], title="T", marks={"a": {"accuracy": 0.75}})
        assert drawn(figure.axes[0])["D"] == [([run], [75])]


def test_runs_that_share_their_first_epochs_are_all_in_sight():
    runs = {"long": LEARNED, "short": LEARNED[:3], "other": lines((0.1, 0.1), (0.2, 0.2))}
    marks = {name: {"accuracy": 0.6} for name in runs}
    axes = curves_figure(runs, [], title="T", marks=marks).axes[0]
    solid = [line for line in axes.lines if line.get_linestyle() == "-" and line.get_lw() >= 1.6]
    long, short, other = (
        [line for line in solid if to_hex(line.get_color()) == colour] for colour in COLOURS[:3]
    )
    below, line = long  # the part that the short run hides, wider, and all of it
    np.testing.assert_allclose(below.get_ydata(), [25, 50, 62.5, NAN])
    assert below.get_lw() > line.get_lw() == short[0].get_lw()
    assert len(short) == len(other) == 1  # nothing lies on these
    order = axes.lines.index
    assert order(below) < order(line) < order(short[0])
    sizes = [line.get_markersize() for line in axes.lines if line.get_marker() == "D"]
    assert sizes[0] > sizes[1] == sizes[2]


def test_more_runs_than_colours_are_refused():
    runs = {str(number): LEARNED for number in range(9)}
    with expect_error(ValueError):
        curves_figure(runs, [], title="T")


def test_marks_of_a_run_that_is_not_there_are_refused():
    with expect_error(ValueError):
        curves_figure({"a": LEARNED}, [], title="T", marks={"b": {"accuracy": 0.5}})


# Severe forms, as Machado, Oliveira and Fernandes (2009) simulate them on linear light.
SIGHTS = {
    "full": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
@pytest.mark.parametrize(
    ("colours", "least"), [(COLOURS, 15), ((*HUES, INK, GREY), 20)], ids=["curves", "named lines"]
)
def test_colours_can_be_told_apart_by_every_kind_of_sight(colours, least, sight):
    seen = [np.asarray(sight) @ linear(to_rgb(colour)) for colour in colours]
    apart = [np.linalg.norm(lab(a) - lab(b)) for a, b in combinations(seen, 2)]
    assert min(apart) > least  # 2 is just noticeable


@pytest.mark.parametrize("colour", [*HUES, INK, MUTED])
def test_colours_of_words_are_dark_enough_to_read(colour):
    light = linear(to_rgb(colour)) @ [0.2126, 0.7152, 0.0722]
    assert 1.05 / (light + 0.05) > 4.5  # what WCAG asks for


def linear(colour):
    colour = np.array(colour)
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def lab(light):
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.array(to_xyz) @ np.clip(light, 0, 1) / [0.9505, 1, 1.089]
    f = [np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_one_epoch_is_shown_as_points():
    figure = curves_figure({"a": lines((0.4, 0.3))}, [], title="T")
    axes = figure.axes[0]
    assert ([1], [30]) in drawn(axes)["o"] and drawn(axes)["_"] == [([1], [40])]
    assert [tick for tick in axes.get_xticks() if 0.5 < tick < 1.5] == [1]
    low, high = axes.get_ylim()
    assert low < 30 < 40 < high
    assert_legible(figure)


def test_missing_keys_and_nan_are_gaps_and_lone_numbers_are_points():
    run = lines(*[(0.5, 0.1 * n) for n in range(1, 7)])
    run[1]["val/accuracy"] = NAN
    del run[3]["val/accuracy"]
    del run[5]["val/accuracy"]
    run[4]["val/accuracy"] = NAN
    figure = curves_figure({"a": run, "empty": []}, [], title="T")
    found = drawn(figure.axes[0])
    np.testing.assert_allclose(found["-"][0][1], [10, NAN, 30, NAN, NAN, NAN])
    np.testing.assert_allclose(found["o"][0][0], [1, 3])
    np.testing.assert_allclose(found["o"][1], [[3], [30]])  # the best of those there are
    assert_legible(figure)


@pytest.mark.parametrize(
    "runs",
    [{}, {"a": []}, {"a": [{"epoch": 1, "train/loss": 2.0}]}, {"a": lines((NAN, NAN))}],
    ids=["no run", "no line", "no figure", "nan"],
)
def test_without_a_number_the_picture_says_so(runs):
    figure = curves_figure(runs, [], title="T")
    assert "No epoch has been measured yet." in [text for text, _ in boxes_of_words(figure)]
    assert not figure.axes


def test_accuracies_stay_below_a_hundred_and_a_flat_line_has_some_height():
    figure = curves_figure({"a": lines((1.0, 1.0), (1.0, 1.0))}, [], title="T")
    low, high = figure.axes[0].get_ylim()
    assert 98 < low < 100 < high < 101
    assert max(figure.axes[0].get_yticks()) <= 100


@pytest.mark.parametrize(
    "name", ["$x^2$ $y", "猫 と 犬", "שלום", "a\nb", "<b>&amp;", "W" * 300, "\\alpha %s", ""]
)
def test_any_name_is_drawn_as_it_is_or_without_its_middle(tmp_path, name):
    figure = curves_figure(
        {name: LEARNED, "b": LEARNED}, [tmp_path / "a.png", tmp_path / "a.svg"], title=name
    )
    with drawing(name):
        assert_legible(figure)
    if name in ("$x^2$ $y", "<b>&amp;", "\\alpha %s"):
        assert name in [text for text, _ in boxes_of_words(figure)]


def test_a_dollar_in_a_name_is_a_dollar():
    with drawing():
        assert inches("$x^2$") == pytest.approx(inches("x^2$$"), abs=0.02)


def test_long_words_lose_their_middle_and_no_more_than_needed():
    with drawing():
        words = fitting("run-" + 60 * "x" + "-seed-7", 2.0)
        assert words.startswith("run-") and words.endswith("-seed-7") and "…" in words
        assert 1.8 < inches(words) <= 2.0
        assert fitting(" short\tand  sweet\n", 2.0) == "short and sweet"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_curves_are_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        curves_figure({"a": LEARNED}, path, title="T", marks={"a": {"accuracy": 0.5}})
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_several_paths_are_all_written_in_the_format_of_their_names(tmp_path):
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    curves_figure({"a": LEARNED}, [png, svg], title="T")
    assert Image.open(png).format == "PNG" and Image.open(png).width == 1600
    assert "<svg" in svg.read_text(encoding="utf-8")


@pytest.mark.parametrize("quantity", ["loss", "perplexity", "error"])
def test_the_best_of_a_loss_is_the_smallest(quantity):
    values = [3.0, 1.0, NAN, 1.0, 2.0]
    assert best_epoch([{f"val/{quantity}": value} for value in values]) == 1
    assert best_epoch([{"val/bleu": value} for value in values]) == 0
    assert best_epoch([{"train_eval/accuracy": 0.9}]) is None
    assert best_epoch([{f"val/{quantity}": NAN}]) is None


def test_the_gap_of_a_loss_is_what_validation_loses_more():
    losses = [{"epoch": 1, "val/loss": 1.5, "train_eval/loss": 1.25}]
    assert gap(losses) == Gap(1.25, 1.5, 0.25, 1)
    beside = [{**losses[0], "val/accuracy": 0.5, "train_eval/accuracy": 0.75}]
    assert gap(beside) == Gap(0.75, 0.5, 0.25, 1)


def test_the_loss_of_training_itself_is_no_figure_of_a_split():
    course = [{"epoch": 1, "train/loss": 2.0, "val/loss": 1.0}, {"epoch": 2, "train/loss": 1.0}]
    figure = curves_figure({"a": course}, [], title="T")
    assert titles(figure) == ["loss"] and len(figure.axes) == 1
    assert best_epoch([{"train/loss": 1.0}]) is None


def test_the_gap_is_that_of_the_last_epoch_that_has_both():
    assert gap(LEARNED) == Gap(0.95, 0.55, pytest.approx(0.4), 4)
    unfinished = [*LEARNED, {"epoch": 5, "train_eval/accuracy": 0.99}]
    assert gap(unfinished).epoch == 4
    assert gap([*LEARNED, *lines((0.97, NAN))]).epoch == 4
    assert gap(LEARNED[:1]) == Gap(0.3, 0.25, pytest.approx(0.05), 1)


@pytest.mark.parametrize("run", [[], [{"epoch": 1, "train_eval/accuracy": 0.9}]])
def test_a_gap_without_both_ends_is_refused(run):
    with expect_error(ValueError):
        gap(run)
