"""Every map lies over the image where it belongs, on the scale that its row says."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from golden import expect_error
from regard.data.synthetic.digits import load_digits
from regard.visualization.figure_image import (
    DEPTHS,
    attention_figure,
    check,
    chosen,
    over,
    percent,
    resized,
    to_colours,
    wrapped,
)
from regard.visualization.figures import drawing, inches
from test_curves import SIGHTS, lab, linear
from test_figures import assert_legible


def photograph(height: int, width: int) -> np.ndarray:
    """Smooth colours with some texture."""
    down, across = np.mgrid[:height, :width] / max(height, width)
    waves = [np.sin(3 * down + a) * np.cos(5 * across - a) for a in range(3)]
    grain = np.random.default_rng(0).normal(0, 0.05, (height, width, 3))
    return (255 * np.clip(0.5 + 0.4 * np.stack(waves, -1) + grain, 0, 1)).astype(np.uint8)


def shares(*shape: int) -> np.ndarray:
    """Maps whose patches sum to 0.9."""
    maps = np.random.default_rng(1).random(shape) ** 3
    return 0.9 * maps / maps.sum((-2, -1), keepdims=True)


def white(height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), 255, np.uint8)


def draw(image=None, maps=None, rollout=None, path=(), **options):
    maps = shares(2, 3, 4, 4) if maps is None else maps
    return attention_figure(
        white(16, 16) if image is None else image,
        maps,
        maps.mean((0, 1)) if rollout is None else rollout,
        path if path else [],
        **{"title": "T", **options},
    )


def words_of(figure) -> list[str]:
    """What is written: the title, what it is about, and the rest."""
    found = [text.get_text() for part in (figure, *figure.axes) for text in part.texts]
    return [" ".join(words.split()) for words in found]


def pictures_of(figure) -> list[np.ndarray]:
    """The pixels of each picture: the image, the rollout, then the maps row by row."""
    arrays = [axes.images[0].get_array() for axes in figure.axes]
    return [np.asarray(array) for array in arrays if array.ndim == 3]  # scales are one column


def centres(picture: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The colour in the middle of each patch."""
    height, width, _ = picture.shape
    down = ((np.arange(rows) + 0.5) * height / rows).astype(int)
    across = ((np.arange(columns) + 0.5) * width / columns).astype(int)
    return picture[down][:, across]


def test_every_map_is_drawn_on_the_scale_of_its_row():
    maps, rollout = shares(3, 4, 2, 5), shares(2, 5)
    figure = draw(white(20, 50), maps, rollout)
    image, rolled, *cells = pictures_of(figure)
    assert (image == 255).all() and len(cells) == 3 * 5
    expected = [rollout / rollout.max()]
    for layer in maps:
        expected += [view / layer.max() for view in (*layer, layer.mean(0))]
    for picture, relative in zip([rolled, *cells], expected, strict=True):
        colours = np.round(255 * DEPTHS(relative)[..., :3])
        np.testing.assert_array_equal(centres(picture, 2, 5), colours)
    scales = {percent(greatest) for greatest in (rollout.max(), *maps.max((1, 2, 3)))}
    names = {f"layer {n}" for n in (1, 2, 3)} | {f"head {n}" for n in (1, 2, 3, 4)}
    assert scales | names | {"mean", "rollout: all layers multiplied"} <= set(words_of(figure))


def test_a_map_lies_over_its_own_part_of_the_image():
    lit = np.zeros((3, 4))
    lit[2, 1] = 1.0
    picture = over(np.ones((30, 60)), lit)
    dark = (picture < 255).any(-1)
    assert dark[20:, 15:30].all() and dark.sum() == 10 * 15


def test_the_image_shows_through_and_never_looks_like_reading():
    grey = np.linspace(0, 1, 64).reshape(8, 8)
    unread = over(grey, np.zeros((2, 2)))
    assert (np.ptp(unread, axis=-1) == 0).all()  # grey alone, without any blue
    assert unread.min() > 150 and np.ptp(unread) > 60
    read = over(grey, np.ones((2, 2)))
    assert read.max(-1).max() < unread.min()  # the most read is darker than any black ink


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_more_is_darker_to_every_kind_of_sight(sight):
    steps = [np.asarray(sight) @ linear(to_rgb(DEPTHS(s))) for s in np.linspace(0, 1, 33)]
    lightness = np.array([lab(step)[0] for step in steps])
    fall = -np.diff(lightness)
    assert (fall > 0.5).all() and lightness[0] - lightness[-1] > 70


def test_layers_and_heads_beyond_eight_are_chosen_evenly_and_said_so():
    maps = shares(12, 16, 4, 4)
    figure = draw(maps=maps)
    words = words_of(figure)
    assert [w for w in words if w.startswith("layer ")] == [
        f"layer {n}" for n in (1, 3, 4, 6, 7, 9, 10, 12)
    ]
    assert "mean of 16" in words and "Shown are 8 of 12 layers and 8 of 16 heads." in words[1]
    # The mean is of all sixteen, shown or not.
    cells = pictures_of(figure)[2:]
    layer = maps[2]
    heads = chosen("heads", None, 16)
    greatest = max(layer[heads].max(), layer.mean(0).max())
    expected = np.round(255 * DEPTHS(layer.mean(0) / greatest)[..., :3])
    np.testing.assert_array_equal(centres(cells[9 + 8], 4, 4), expected)


def test_layers_and_heads_asked_for_are_those_shown():
    maps = shares(5, 4, 2, 2)
    figure = draw(maps=maps, layers=[-1, 0], heads=[2])
    words = words_of(figure)
    assert [w for w in words if w.startswith(("layer", "head", "mean"))] == [
        *("head 3", "mean of 4", "layer 5", "layer 1"),
    ]
    assert "Shown are 2 of 5 layers and 1 of 4 heads." in words[1]
    first = pictures_of(figure)[2]
    expected = maps[4, 2] / max(maps[4, 2].max(), maps[4].mean(0).max())
    np.testing.assert_array_equal(centres(first, 2, 2), np.round(255 * DEPTHS(expected)[..., :3]))


@pytest.mark.parametrize(
    ("count", "wanted", "expected"),
    [
        (3, None, [0, 1, 2]),
        (8, None, list(range(8))),
        (24, None, [0, 3, 7, 10, 13, 16, 20, 23]),
        (5, [3, -1], [3, 4]),
        (20, range(1, 20, 2), [1, 3, 7, 9, 11, 13, 17, 19]),
    ],
)
def test_at_most_eight_are_chosen_from_first_to_last(count, wanted, expected):
    assert chosen("layers", wanted, count) == expected


@pytest.mark.parametrize("wanted", [[], [4], [-5]])
def test_a_layer_that_is_not_there_is_named(wanted):
    with expect_error(ValueError):
        chosen("layers", wanted, 4)


KINDS = {
    "photograph": (photograph(224, 224), (12, 12, 14, 14)),
    "small": (photograph(32, 32), (5, 4, 8, 8)),
    "digit": (load_digits(1).images[0, 0], (2, 4, 4, 4)),
    "grey": (photograph(28, 28)[..., :1], (3, 2, 7, 7)),
    "wide": (photograph(48, 160), (3, 3, 3, 10)),
    "very wide": (photograph(16, 256), (8, 8, 1, 16)),
    "tall": (photograph(160, 40), (4, 8, 8, 2)),
    "one": (photograph(8, 8), (1, 1, 1, 1)),
}


@pytest.mark.parametrize(("image", "shape"), KINDS.values(), ids=KINDS.keys())
def test_words_stay_apart_whatever_the_image(image, shape):
    figure = draw(
        image,
        shares(*shape),
        title="What it looked at, and a title that goes on for so long that it needs two lines",
        answer="says something that is long, 97% (is another thing)",
        caption="One line.\nAnother line, below it.",
    )
    assert_legible(figure)
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
    assert all(figure.bbox.x1 >= box.x1 and box.y0 >= 0 for box in boxes)
    height, width = image.shape[:2]
    for picture in figure.axes[:2]:  # neither is stretched
        box = picture.get_window_extent()
        assert box.height / box.width == pytest.approx(height / width, rel=1e-6)


@pytest.mark.parametrize("name", ["$x_1$ $", "猫", "W" * 200, "a <b> & \\n"])
def test_any_answer_is_drawn_as_it_is(tmp_path, name):
    figure = draw(answer=name, title=name, caption=name, path=tmp_path / "a.png")
    with drawing(name):
        assert_legible(figure)
    assert "".join(words_of(figure)[0].split()) == "".join(name.split())


def test_nothing_read_is_white_and_its_scale_says_nothing():
    figure = draw(maps=np.zeros((1, 2, 2, 2)))
    assert all((picture == 255).all() for picture in pictures_of(figure))
    assert "0%" in words_of(figure)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_picture_is_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        draw(photograph(32, 32), path=path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix] in first[:10]


def test_a_photograph_keeps_its_colours(tmp_path):
    image = photograph(64, 64)
    draw(image, path=[tmp_path / "a.png"])
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.mode == "RGB"
        assert len(picture.getcolors(1 << 24)) > 2000


def test_ink_is_dark_on_white_and_grey_is_as_it_was():
    ink = np.array([[0.0, 1.0], [0.5, 0.2]])
    assert to_colours(ink)[:, :, 0].tolist() == [[255, 0], [128, 204]]
    grey = np.array([[[0], [255]]], np.uint8)
    assert to_colours(grey).tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_few_pixels_stay_squares_and_many_are_averaged():
    chess = np.indices((8, 8)).sum(0) % 2 * np.uint8(255)
    image = to_colours(chess[..., None].astype(np.uint8))
    assert set(np.unique(resized(image, (0.5, 0.5)))) == {0, 255}
    fine = np.tile(image, (50, 50, 1))
    assert 60 < np.median(resized(fine, (0.2, 0.2))) < 200


@pytest.mark.parametrize(
    "image",
    [
        np.full((4, 4), 2.0),
        np.full((4, 4), np.nan),
        np.zeros((4, 4, 4), np.uint8),
    ],
)
def test_an_image_that_cannot_be_shown_is_refused(image):
    with expect_error(ValueError):
        to_colours(image)


@pytest.mark.parametrize(
    ("maps", "rollout"),
    [
        (np.ones((2, 2, 4, 4)), np.ones((4, 5))),
        (-np.ones((1, 1, 2, 2)), np.ones((2, 2))),
        (np.ones((1, 1, 2, 2)), np.full((2, 2), np.nan)),
    ],
)
def test_maps_that_do_not_fit_are_refused(maps, rollout):
    with expect_error(ValueError):
        check(maps, rollout)


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "100%"), (0.48, "48%"), (0.1, "10%"), (0.067, "6.7%"), (0.0051, "0.51%"), (0, "0%")],
)
def test_shares_keep_two_digits_however_small(share, words):
    assert percent(float(share)) == words


def test_lines_are_no_wider_than_they_may_be():
    with drawing():
        lines = wrapped("some words and a " + "very" * 30 + " long one\n\nnext", 1.5)
        assert all(inches(line) <= 1.5 for line in lines)
        assert "".join("".join(lines).split()) == "somewordsanda" + "very" * 30 + "longonenext"
        assert lines[-2:] == ["", "next"]
        assert wrapped("", 1.0) == []
