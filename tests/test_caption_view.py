"""Each word of a caption shows where it looked: in the browser and on paper."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from golden import expect_error
from regard.data.synthetic.scene_captions import captions
from regard.data.synthetic.scene_drawing import boxes as boxes_of
from regard.data.synthetic.scene_drawing import draw
from regard.data.synthetic.scene_grammar import mentioned
from regard.data.synthetic.scenes import scene
from regard.visualization.document import packed, png_uri, write_document
from regard.visualization.figure_caption import caption_figure, layout, sentence, shortened
from regard.visualization.figure_image import DEPTHS
from regard.visualization.figures import drawing, inches
from test_figures import assert_legible

HOSTILE = "</script><img src=x onerror='window.harmed=1'><b>\u2028&\"'"


def maps_for(words, heads=3, rows=4, columns=4, seed=0):
    """Shares of 1 that differ from map to map; the first head is the mean of the others."""
    drawn = np.random.default_rng(seed).exponential(size=(heads, words, rows, columns)) ** 2
    drawn /= drawn.sum((2, 3), keepdims=True)
    return np.concatenate((drawn.mean(0, keepdims=True), drawn))


def item(number=0, words=None, maps=None, **changes):
    """A scene with its caption, and invented maps."""
    shown = scene(number, "train")
    said = captions(shown, 3)
    words = said[0].split() if words is None else words
    maps = maps_for(len(words), seed=number) if maps is None else maps
    shares = boxes_of(shown) / 64
    return {
        "name": f"scene {number}",
        "image": png_uri(np.ascontiguousarray(draw(shown).transpose(1, 2, 0))),
        "words": words,
        "references": said[1:],
        "note": "true of the scene",
        "grid": list(maps.shape[-2:]),
        "heads": ["mean", *(f"layer 1 head {n}" for n in range(1, len(maps)))],
        "maps": packed(maps),
        "boxes": [
            {"word": word, "box": shares[thing].tolist()}
            for word, thing in mentioned(" ".join(words), shown)
        ],
        **changes,
    }


# In a browser


@pytest.fixture
def opened(opened):
    """Opens a page of these captions."""

    def open_captions(*items, **options):
        section = {"view": "captions", "title": "Captions", "data": {"items": items}}
        return opened({"title": "Page", "sections": [section]}, **options)

    return open_captions


def fills(page):
    return page.each(".picture .map rect", "e.getAttribute('fill')")


def shown(page):
    """The words that are marked as shown."""
    return page.each(".word.shown")


def nth(place):
    return f".word:nth-of-type({place + 1})"


def choose(page, control, value):
    page.evaluate(f"""(() => {{
      const select = document.querySelector("select.{control}");
      select.value = "{value}";
      select.dispatchEvent(new Event("change"));
    }})()""")


def darkest(page):
    """The place of the patch with the darkest colour."""
    light = [sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill in fills(page)]
    return int(np.argmin(light))


@pytest.mark.chromium
def test_a_word_shows_its_map_while_the_mouse_is_on_it(opened):
    maps = maps_for(5, rows=3, columns=6)
    page = opened(item(words=["a", "red", "star", "here", "."], maps=maps))
    assert fills(page) == [] and shown(page) == [] and page.count(".picture filter") == 0
    assert page.text(".line") == "a red star here."
    for place, word in ((2, "star"), (0, "a"), (4, ".")):
        page.hover(nth(place))
        assert shown(page) == [word] and len(fills(page)) == 18
        assert darkest(page) == maps[0, place].argmax()
        assert page.text(".picture figcaption span") == f"‘{word}’, mean"
        assert f"{maps[0, place].max():.1%}" == page.text(".scale")[1:].strip()
    page.hover("h1")
    assert fills(page) == [] and shown(page) == []
    assert page.count("[aria-checked=true]") == 0


@pytest.mark.chromium
def test_a_click_keeps_a_word_and_another_click_lets_it_go(opened):
    page = opened(item())
    page.click(nth(1))
    page.hover(nth(3))
    assert shown(page) == page.each(nth(3)), "the mouse shows another meanwhile"
    page.hover("h1")
    assert shown(page) == page.each(nth(1)) == page.each("[aria-checked=true]")
    kept = fills(page)
    page.click(nth(1))
    assert shown(page) == [] and fills(page) == [] != kept


@pytest.mark.chromium
def test_a_tap_chooses_a_word_and_a_finger_that_may_yet_scroll_does_not(opened):
    words = ["one", "two", "three", "four"]
    page = opened(item(words=words), width=360)
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    for place, before, after in ((2, [], ["three"]), (3, ["three"], ["four"]), (3, ["four"], [])):
        x, y = page.place(nth(place))
        page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        assert shown(page) == before
        page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        page.until(f"document.querySelectorAll('.word.shown').length === {len(after)}")
        assert shown(page) == after


@pytest.mark.chromium
def test_arrow_keys_walk_along_the_words(opened):
    words = ["one", "two", "three", "four"]
    page = opened(item(words=words))
    page.focus(".word")
    seen = {}
    for key, place in (
        (None, 0),
        ("ArrowLeft", 0),  # the edge
        ("ArrowRight", 1),
        ("ArrowDown", 2),
        ("End", 3),
        ("ArrowRight", 3),
        ("ArrowUp", 2),
        ("Home", 0),
    ):
        if key:
            page.press(key)
        assert shown(page) == [words[place]] == page.each("[aria-checked=true]")
        assert page.evaluate("document.activeElement.textContent") == words[place]
        assert page.each(".word[tabindex='0']") == [words[place]], "one stop for the Tab key"
        assert seen.setdefault(place, fills(page)) == fills(page)
    assert len(set(map(tuple, seen.values()))) == 4
    page.press("Escape")
    assert shown(page) == [] and fills(page) == []
    page.press("ArrowRight")
    assert shown(page) == ["two"]


@pytest.mark.chromium
def test_the_keyboard_is_heeded_wherever_the_mouse_rests(opened):
    page = opened(item())
    page.hover(nth(4))
    page.focus(".word")
    page.press("ArrowRight")
    assert shown(page) == page.each(nth(1))


@pytest.mark.chromium
def test_captions_from_right_to_left_walk_to_the_left(opened):
    words = ["כוכב", "אדום", "🌟", HOSTILE, "<b>"]
    page = opened(item(words=words, references=["כוכב", "a star"]))
    places = page.each(".word", "e.getBoundingClientRect().left")
    assert places[0] > places[1] > places[2], "the first word is the rightmost"
    page.focus(".word")
    page.press("ArrowLeft")
    assert shown(page) == [words[1]]
    page.press("ArrowRight")
    assert shown(page) == [words[0]]
    directions = page.each(".references li", "getComputedStyle(e).direction")
    assert directions == ["rtl", "ltr"]


@pytest.mark.chromium
def test_another_head_is_another_map_and_keeps_the_focus(opened):
    maps = maps_for(5)
    page = opened(item(words=list("abcde"), maps=maps))
    page.click(nth(2))
    tints = page.each(".word", "e.style.getPropertyValue('--tint')")
    page.focus("select.head")
    for head, name in ((2, "layer 1 head 2"), (0, "mean"), (3, "layer 1 head 3")):
        choose(page, "head", head)
        assert page.text(".picture figcaption span") == f"‘c’, {name}"
        assert darkest(page) == maps[head, 2].argmax()
        assert page.evaluate("document.activeElement.className") == "head"
    assert page.each(".word", "e.style.getPropertyValue('--tint')") != tints
    before = fills(page)
    choose(page, "paint", "dusk")
    assert fills(page) != before
    choose(page, "paint", "blue")
    page.click("input[type=checkbox]")
    most = page.text(".scale").split()[-1]
    assert f"{maps[3].max():.1%}" in most, "the greatest share of all words"


@pytest.mark.chromium
def test_words_are_tinted_by_how_few_patches_they_looked_at(opened):
    maps = np.full((1, 3, 4, 4), 1 / 16)
    maps[0, 1] = np.eye(16)[5].reshape(4, 4)
    maps[0, 2] = np.repeat([0.25, 0, 0, 0], 4).reshape(4, 4)
    page = opened(item(words=["even", "one", "four"], maps=maps))
    tints = [float(v) for v in page.each(".word", "e.style.getPropertyValue('--tint')")]
    assert tints == pytest.approx([0, 1, 0.5], abs=1e-3), "1 - entropy / log 16"
    for place, count in enumerate((16, 1, 4)):
        page.hover(nth(place))
        assert page.text(".picture .note") == f"spread over about {count} of 16 patches"
    page.hover("h1")
    page.hover(".picture svg", 0.375, 0.375)  # row 2, column 2, which the second word looked at
    tints = [float(v) for v in page.each(".word", "e.style.getPropertyValue('--tint')")]
    assert tints == pytest.approx([1 / 16, 1, 0], abs=1e-3)
    assert page.text(".hint").startswith("row 2, column 2: looked at most by ‘one’, with 100.00%")


@pytest.mark.chromium
def test_the_box_of_a_word_is_outlined_while_it_is_shown(opened):
    boxes = [{"word": 1, "box": [0.25, 0.5, 0.75, 1]}, {"word": 1, "box": [0, 0, 0.25, 0.25]}]
    page = opened(item(words=["a", "star"], boxes=boxes))
    assert page.count(".box") == 0
    page.hover(nth(1))
    assert page.count(".box") == 4, "white within black, twice"
    left, top, width, height = page.box(".picture svg")
    inner = page.box(".box")
    assert np.allclose(inner[:2], [left + width / 4, top + height / 2], atol=5)
    assert np.allclose(inner[2:], [width / 2, height / 2], atol=8)
    page.hover(nth(0))
    assert page.count(".box") == 0


@pytest.mark.chromium
def test_hostile_captions_stay_text(opened):
    page = opened(
        item(words=[HOSTILE, "<b>", " "], name=HOSTILE, note=HOSTILE, references=[HOSTILE]),
        item(1, heads=[HOSTILE], image="https://example.org/x.png"),
        item(2, image="javascript:alert(1)"),
    )
    for place in range(3):
        page.hover(nth(place))
    page.hover(".picture svg")
    page.click(".thumb:nth-child(2)")
    page.click(".thumb:nth-child(1)")
    assert page.each(".word") == [HOSTILE, "<b>", "␣"] and page.each(".references li") == [HOSTILE]
    assert page.evaluate("window.harmed") is None and page.count("script") == 3
    assert page.count("img[src=x], [onerror], .word *") == 0
    assert page.each(".thumb img", "Boolean(e.getAttribute('src'))") == [True, False, False]


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_a_caption_and_its_picture_fit_the_screen(opened, width, dark):
    items = [item(number) for number in range(24)]
    items[1]["words"] = ["W" * 300, "b"]
    items[1]["maps"] = packed(maps_for(2))
    items[1]["heads"] = ["mean", "h" * 300]
    page = opened(*items, width=width, dark=dark, address="#captions?item=2&word=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click(".thumb:nth-child(3)")
    words, picture = page.box(".line"), page.box(".picture svg")
    beside = words[0] >= picture[0] + picture[2]
    above = words[1] + words[3] <= picture[1]
    assert beside if width == 1400 else above
    page.hover(nth(3))
    assert page.box(".line") == words, "words do not move under the mouse"


@pytest.mark.chromium
def test_a_gallery_of_24_draws_one_and_goes_by_keyboard(opened):
    items = [item(number) for number in range(24)]
    page = opened(*items)
    assert page.count(".thumb") == 24 and page.count(".stage .picture") == 1
    assert page.count("*") < 400, "only what is looked at is drawn"
    page.click(nth(1))
    page.click(".thumb")
    for number in (1, 2, 3):
        page.press("ArrowRight")
        assert page.text(".top h3") == f"scene {number}" and shown(page) == []
        assert page.each(".references li") == items[number]["references"]
        assert page.each(".thumb[aria-checked=true]", "e.ariaLabel") == [f"scene {number}"]
    size = len(Path(page.evaluate("decodeURIComponent(location.pathname)")).read_bytes())
    assert size < 400_000


@pytest.mark.chromium
def test_the_address_reproduces_what_is_looked_at(opened):
    items = [item(number) for number in range(3)]
    page = opened(*items, address="#captions?item=2&word=3&head=2")
    assert shown(page) == [items[1]["words"][2]] and page.text(".top h3") == "scene 1"
    assert page.evaluate("document.querySelector('select.head').value") == "1"
    before = fills(page)
    page.click(nth(0))
    assert page.evaluate("location.hash") == "#captions?item=2&word=1&head=2"
    page.press("Escape")
    assert page.evaluate("location.hash") == "#captions?item=2&head=2"
    page.hover("h1")
    page.evaluate("location.hash = '#captions?item=2&word=3&head=2'")
    page.until("document.querySelector('.word.shown') !== null")
    assert fills(page) == before


@pytest.mark.chromium
@pytest.mark.parametrize("address", ["#captions?item=99&word=99&head=99", "#captions?word=x"])
def test_an_address_that_leads_nowhere_shows_the_first_image_as_it_is(opened, address):
    page = opened(item(), item(1), address=address)
    assert page.text(".top h3") == "scene 0" and shown(page) == []


@pytest.mark.chromium
def test_what_is_shown_can_be_saved(opened):
    boxes = [{"word": 1, "box": [0.25, 0.5, 0.75, 1]}]
    page = opened(item(words=["a", "red", HOSTILE], boxes=boxes), dark=True)
    page.click(nth(1))
    page.click(".download")
    png = page.saved(".png")
    assert Image.open(png).size == (2 * (560 + 24), 2 * (560 + 84))
    assert png.name.endswith("-red-mean.png")
    page.click(".download + .download")
    drawing = ElementTree.fromstring(page.saved(".svg").read_bytes())
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in drawing.iter(f"{space}text")]
    assert words[0].startswith("a red </script><img") and "‘red’, mean" in words
    assert len([e for e in drawing.iter(f"{space}rect") if e.get("class") == "box"]) == 2


@pytest.mark.chromium
def test_the_least_there_can_be_is_drawn(opened):
    bare = {"image": item()["image"], "words": ["a", "star"]}
    page = opened(bare, {"words": []}, item(2, heads=None, references=[], note=None, boxes=None))
    page.hover(nth(1))
    assert "No map was kept" in page.text(".picture") and page.count("select") == 0
    page.hover(".picture svg")
    page.click(".thumb:nth-child(2)")
    assert "The caption has no words." in page.text(".stage")
    page.click(".thumb:nth-child(3)")
    page.hover(nth(1))
    assert page.text(".picture figcaption span").endswith("’, map 1")


@pytest.mark.chromium
def test_nothing_at_all_says_so(opened):
    assert "There is no caption to show." in opened().text(".empty")


@pytest.mark.chromium
def test_maps_that_do_not_fit_the_words_are_said_to(browser, tmp_path):
    data = {"items": [item(words=["a", "b"], maps=maps_for(3))]}
    section = {"view": "captions", "title": "Captions", "data": data}
    write_document(tmp_path / "page.html", {"title": "Page", "sections": [section]})
    page = browser.open((tmp_path / "page.html").as_uri())
    assert "2 words have maps of shape 4 × 3 × 4 × 4" in page.text(".empty")
    page.close()


@pytest.mark.chromium
def test_everything_that_acts_has_a_name_and_words_are_one_stop(opened):
    page = opened(item(), item(1))
    name = "Boolean(e.ariaLabel || e.textContent.trim() || e.labels?.length)"
    assert all(page.each("button, a, input, select, [tabindex]", name))
    stops = page.each("[role=radiogroup]", "e.querySelectorAll('[tabindex=\"0\"]').length")
    assert stops == [1, 1]


# On paper


def sheet(words=("a", "red", "star"), maps=None, image=None, **options):
    image = np.full((32, 32, 3), 255, np.uint8) if image is None else image
    return caption_figure(
        image, list(words), maps_for(len(words))[0] if maps is None else maps, **options
    )


def pictures_of(figure):
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes]


def words_of(figure):
    return [" ".join(text.get_text().split()) for text in figure.texts]


def centres(picture, rows, columns):
    """The colour in the middle of each patch."""
    height, width, _ = picture.shape
    down = ((np.arange(rows) + 0.5) * height / rows).astype(int)
    across = ((np.arange(columns) + 0.5) * width / columns).astype(int)
    return picture[down][:, across]


@pytest.mark.parametrize("one_scale", [True, False])
def test_each_word_has_a_panel_with_its_map(one_scale):
    maps = maps_for(3, rows=2, columns=5)[0]
    figure = sheet(maps=maps, image=np.full((20, 50, 3), 255, np.uint8), one_scale=one_scale)
    image, *panels = pictures_of(figure)
    assert (image == 255).all() and len(panels) == 3
    for panel, view in zip(panels, maps, strict=True):
        relative = view / (maps.max() if one_scale else view.max())
        colours = np.round(255 * DEPTHS(relative)[..., :3])
        np.testing.assert_array_equal(centres(panel, 2, 5), colours)
    words = words_of(figure)
    assert words[0] == "a red star" and {"image", "a", "red", "star"} <= set(words)
    assert [w for w in words if w.startswith("up to")] == [f"up to {v.max():.0%}" for v in maps]


def test_the_mean_of_heads_is_drawn_unless_one_is_chosen():
    heads = maps_for(3)[1:]
    for options, view, said in (
        ({}, heads.mean(0), "the mean of 3 heads"),
        ({"head": 1}, heads[1], "head 2 of 3"),
        ({"head": -1}, heads[2], "head 3 of 3"),
    ):
        figure = sheet(maps=heads, **options)
        panels, alone = pictures_of(figure), pictures_of(sheet(maps=view))
        assert all(np.array_equal(a, b) for a, b in zip(panels, alone, strict=True))
        assert f"Drawn is {said}." in words_of(figure)[1]


def test_a_box_is_outlined_where_it_is():
    figure = sheet(boxes=[{"word": 1, "box": [0.25, 0.5, 0.75, 1.0]}])
    counts = [len(axes.patches) for axes in figure.axes]
    assert counts == [0, 0, 2, 0], "white within black"
    for patch in figure.axes[2].patches:
        assert patch.get_bbox().bounds == (0.25, 0.0, 0.5, 0.5), "axes count from below"


def test_the_page_says_what_is_framed_where_something_is():
    words = [f"word{n}" for n in range(30)]
    for count, boxes, said in (
        (3, (2,), True),
        (3, (), False),
        (30, (23,), True),
        (30, (24,), False),
    ):
        boxes = [{"word": word, "box": [0.0, 0.0, 0.5, 0.5]} for word in boxes]
        figure = sheet(words[:count], boxes=boxes)
        assert_legible(figure)
        assert ("Framed: the thing that the word names." in words_of(figure)[1]) == said


@pytest.mark.parametrize("count", [1, 5, 6, 24, 25, 70])
def test_long_captions_wrap_and_end_after_24_words(count):
    words = [f"word{n}" for n in range(count)]
    figure = sheet(words, caption="One line.\nAnother.")
    assert_legible(figure)
    assert len(figure.axes) == 1 + min(count, 24)
    said = words_of(figure)
    assert ("word23" in said) == (count >= 24) and "word24" not in said
    assert said[0].endswith("…") == (count > 24)
    assert (f"Shown are the first 24 of {count} words." in said[1]) == (count > 24)
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


@pytest.mark.parametrize("shape", [(16, 256), (160, 40), (1, 1), (64, 64)], ids=str)
def test_words_stay_apart_and_pictures_keep_their_shape(shape):
    words = ["$x_1$", "a-very-long-word-that-has-no-room-at-all", "כוכב", "猫🌟", " ", "</b>"]
    figure = sheet(words, image=np.full((*shape, 3), 200, np.uint8))
    with drawing(*words):
        assert_legible(figure)
    for axes in figure.axes:
        box = axes.get_window_extent()
        assert box.height / box.width == pytest.approx(shape[0] / shape[1], rel=1e-6)
    assert "␣" in words_of(figure) and "$x_1$" in words_of(figure)


def test_no_row_of_panels_is_nearly_empty():
    for panels in range(2, 26):
        rows, columns, across = layout(panels)
        assert rows * columns >= panels > (rows - 1) * columns and columns <= 6
        assert rows * columns - panels < rows and 1 < across < 2


def test_marks_follow_without_a_space_and_long_words_are_cut():
    words = ["it", "'s", "here", ",", "is", "n't", "it", "?", "3", "%", "."]
    assert sentence(words) == "it's here, isn't it? 3%."
    assert sentence(["<b>", "-", "a"]) == "<b> - a"
    with drawing():
        short = shortened("immeasurable", 0.5)
        assert re.fullmatch("imm.*…", short) and inches(short) <= 0.5
        assert shortened("star", 1.0) == "star"


def test_nothing_looked_at_is_white():
    figure = sheet(maps=np.zeros((3, 2, 2)))
    assert all((picture == 255).all() for picture in pictures_of(figure))
    assert "up to 0%" in words_of(figure)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_sheet_is_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        sheet(path=path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second and len(first) > 1000


@pytest.mark.parametrize(
    "options",
    [
        {"words": []},
        {"maps": np.ones((2, 4, 4))},
        {"maps": np.ones((3, 0, 4))},
        {"maps": np.full((3, 2, 2), np.nan)},
        {"maps": np.full((3, 2, 2), np.inf)},
        {"maps": -np.ones((3, 2, 2))},
        {"maps": np.ones((2, 2, 3, 2, 2))},
        {"maps": np.ones((3, 2, 2)), "head": 0},
        {"maps": np.ones((2, 3, 2, 2)), "head": 2},
        {"boxes": [{"word": 3, "box": [0, 0, 1, 1]}]},
        {"boxes": [{"word": 0, "box": [0, 0, 10, 12]}]},
        {"boxes": [{"word": 0, "box": [0.5, 0, 0.5, 1]}]},
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options):
    with expect_error(ValueError):
        sheet(**options)
