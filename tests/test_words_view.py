"""Words are as deep as they carried the answer: in the browser and on paper."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from golden import expect_error
from regard.inspection.attribution import METHODS, WordMaps, words_item
from regard.visualization.document import write_document
from regard.visualization.figure_words import LINE_AGAINST, LINE_FOR, SCALE, number, word_figure
from regard.visualization.figures import drawing
from test_figures import assert_legible

HOSTILE = "</script><img src=x onerror='window.harmed=1'><b>\u2028&\"'"
REVIEW = (
    'I would never claim that the hotel "The Bad Garden" was anything but a failure, '
    "and I did regret every minute of the stay."
)
CLASSES = ("negative", "positive")
SECOND = 18  # where a second text may begin: at "and"


def words_of(text):
    """Words and marks, each with the space before it."""
    return re.findall(r"\s*(?:\w+|[^\w\s])", text)


def maps_of(words, seed=0, answer=0):
    draw = np.random.default_rng(seed)
    shares = np.full(2, 0.1)
    shares[answer] = 0.9
    count = len(words)
    return WordMaps(
        answer,
        shares,
        draw.normal(size=count) / 3,
        draw.normal(size=count) * 5,
        draw.dirichlet(np.ones(count)) if count else np.zeros(0),
        0.0,
    )


def item(words=None, maps=None, name="A review", classes=CLASSES, **options):
    words = words_of(REVIEW) if words is None else words
    maps = maps_of(words) if maps is None else maps
    return words_item(name, words, maps, classes, **options)


def depths(values):
    return np.abs(values) / np.abs(values).max()


# In a browser


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page of these texts, and at the end demands that nothing went wrong in it."""
    pages = []

    def open_texts(*items, address="", **options):
        path = tmp_path / f"page {len(pages)}.html"
        section = {"view": "words", "title": "Words", "words": "How.", "data": {"items": items}}
        write_document(path, {"title": "Page", "sections": [section]})
        page = browser.open(path.as_uri() + address, **options)
        pages.append((page, path))
        return page

    yield open_texts
    for page, path in pages:
        outside = [url for url in page.requests if not url.startswith(("data:", "blob:"))]
        page.close()
        assert page.errors == []
        assert {url.partition("#")[0] for url in outside} == {path.as_uri()}


def spot(page, place):
    """The middle of a word on the screen, once it is there."""
    return page.evaluate(f"""((e) => {{
      e.scrollIntoView({{ block: "center" }});
      const box = e.getClientRects()[0];
      return [box.left + box.width / 2, box.top + box.height / 2];
    }})(document.querySelectorAll(".asked .token")[{place}])""")


def hover(page, place):
    x, y = spot(page, place)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    return x, y


def click(page, place):
    x, y = hover(page, place)
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def tints(page):
    return np.array(
        page.each(".asked .token", "Number(e.style.getPropertyValue('--tint'))"), np.float64
    )


def shown(page):
    marked = page.each(".asked .token", "e.classList.contains('shown')")
    return [place for place, mark in enumerate(marked) if mark]


def hinted(page):
    return page.each(".hint", "e.hidden ? '' : e.textContent")


def choose_method(page, method):
    page.click(f".choice button:nth-child({method + 1})")


def choose_text(page, number):
    page.evaluate(f"""(() => {{
      const select = document.querySelector("select.text");
      select.value = "{number}";
      select.dispatchEvent(new Event("change"));
    }})()""")


@pytest.mark.chromium
def test_of_a_part_of_a_text_the_answer_is_of_all_and_the_numbers_are_its_own(opened):
    part = maps_of(words_of(REVIEW))
    page = opened(item(maps=part, whole=np.array([0.6, 0.4]), note="A part."))
    assert page.text(".side h4") == "Answer, from all of the text"
    assert page.each(".answers .share") == ["60.0%", "40.0%"]
    assert page.text(".texts h3 + .note") == "A part."
    click(page, 1)
    assert page.text(".looks .rest").endswith("% in this part, not 90.0%.")


@pytest.mark.chromium
def test_every_method_shades_the_words_by_its_own_numbers(opened):
    words = words_of(REVIEW)
    maps = maps_of(words)
    page = opened(item(words, maps))
    assert page.text(".asked") == REVIEW
    assert page.each(".choice button") == [*METHODS]
    for method, (name, values) in enumerate(maps.by_method().items()):
        choose_method(page, method)
        np.testing.assert_allclose(tints(page), depths(values), atol=2e-3)
        against = page.each(".asked .token", "e.classList.contains('against')")
        np.testing.assert_array_equal(against, values < 0)
        assert METHODS[name].words in page.text(".meaning")
        assert page.count(".meaning .end") == 2 * METHODS[name].signed
        order = np.argsort(-np.abs(values))[:6]
        assert page.each(".strongest bdi") == [words[at].strip() for at in order]
        said = [float(re.sub("[+%]", "", n.replace("−", "-"))) for n in numbers(page)]
        scale = 1 if METHODS[name].signed else 100
        np.testing.assert_allclose(said, scale * values[order], rtol=0.01, atol=0.005 * scale)


def numbers(page):
    return page.each(".strongest .share")


@pytest.mark.chromium
def test_what_speaks_for_and_against_differs_without_colour(opened):
    words, values = ["a", " b", " c"], np.array([1.0, -1.0, 0.0])
    maps = WordMaps(0, np.array([0.9, 0.1]), values, values, np.abs(values) / 2, 0.0)
    page = opened(item(words, maps))
    style = "getComputedStyle(e).textDecorationStyle"
    assert page.each(".asked .token", style) == ["solid", "dotted", "solid"]
    line = "getComputedStyle(e).textDecorationColor"
    colours = page.each(".asked .token", line)
    assert len(set(colours)) == 3
    assert re.search(r"/ 0\)|, 0\)", colours[2]), "no line under a word that says nothing"
    grounds = page.each(".asked .token", "getComputedStyle(e).backgroundColor")
    assert len(set(grounds)) == 3
    assert page.each(".asked .token", "e.ariaLabel") == ["a, +1.00", "b, −1.00", "c, 0"]


@pytest.mark.chromium
def test_a_word_that_is_pointed_at_says_its_number_by_every_method(opened):
    words = words_of(REVIEW)
    maps = maps_of(words)
    page = opened(item(words, maps))
    assert "Point at a word" in page.text(".looks")
    for place in (2, 9):
        hover(page, place)
        assert shown(page) == [place]
        assert page.each(".looks .name") == [*METHODS]
        value = maps.left_out[place]
        side = "against" if value < 0 else "for"
        sign = "−" if value < 0 else "+"
        word = words[place].strip()
        assert hinted(page) == [f"‘{word}’ {sign}{abs(value):.3f}, {side} negative"]
        share = min(1, 0.9 * np.exp(-value))
        assert page.text(".looks .rest") == f"Without it, negative has {share:.1%}, not 90.0%."
    page.hover("h1")
    assert shown(page) == [] and hinted(page) == [""]
    choose_method(page, 2)
    hover(page, 2)
    assert hinted(page)[0].endswith("% of what was read")


@pytest.mark.chromium
def test_a_click_keeps_a_word_and_a_tap_too(opened):
    page = opened(item())
    click(page, 7)
    hover(page, 3)
    assert shown(page) == [3], "the mouse shows another meanwhile"
    page.hover("h1")
    assert shown(page) == [7]
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    x, y = spot(page, 9)
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    assert shown(page) == [7], "a finger that may yet scroll chooses nothing"
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.until("document.querySelectorAll('.asked .token')[9].classList.contains('shown')")
    assert hinted(page)[0].startswith("‘")


@pytest.mark.chromium
def test_arrow_keys_walk_along_the_words_and_between_the_lines(opened):
    words = words_of(REVIEW)
    page = opened(item(words, breaks=[SECOND]), width=500)
    lines = page.each(".asked .token", "Math.round(e.getClientRects()[0].top)")
    page.focus(".choice button:nth-child(3)")
    for _ in range(2):
        page.press("Tab")
    assert shown(page) == [0], "the text is one stop of the Tab key"
    for key, place in (("ArrowLeft", 0), ("ArrowRight", 1), ("End", len(words) - 1), ("Home", 0)):
        page.press(key)
        assert shown(page) == [place]
        assert hinted(page)[0].startswith(f"‘{words[place].strip()}’")
        stops = page.each(".asked .token", "e.tabIndex")
        assert [i for i, stop in enumerate(stops) if stop == 0] == [place]
    page.press("ArrowRight")
    page.press("ArrowDown")
    (below,) = shown(page)
    assert lines[below] == sorted(set(lines))[1], "one line down"
    page.press("ArrowUp")
    assert lines[shown(page)[0]] == min(lines), "and up again"
    for _ in set(lines):
        page.press("ArrowDown")
    assert lines[shown(page)[0]] == max(lines), "through both paragraphs to the edge"
    page.press("Escape")
    assert shown(page) == [] and hinted(page) == [""]


@pytest.mark.chromium
def test_a_strong_word_is_found_in_a_long_text(opened):
    words = words_of(REVIEW) * 25
    maps = maps_of(words)
    page = opened(item(words, maps))
    assert page.count(".asked .token") == len(words) > 500
    first = int(np.argmax(np.abs(maps.left_out)))
    page.click(".strongest button")
    assert shown(page) == [first]
    top = page.evaluate("document.querySelector('.token.shown').getBoundingClientRect().top")
    assert 0 <= top <= 800
    assert page.evaluate("document.activeElement.classList.contains('shown')")
    took = page.evaluate("""(() => {
      const words = document.querySelectorAll(".asked .token");
      const mouse = { bubbles: true, pointerType: "mouse" };
      const start = performance.now();
      for (let i = 0; i < 40; i += 1) {
        words[9 * i].dispatchEvent(new PointerEvent("pointerover", mouse));
        document.body.getBoundingClientRect(); // style and layout, as a frame needs them
      }
      return (performance.now() - start) / 40;
    })()""")
    assert took < 50, f"{took:.0f} ms a word"


@pytest.mark.chromium
def test_a_pair_is_two_paragraphs(opened):
    page = opened(item(breaks=[SECOND]))
    first, second = page.each(".tokens", "e.textContent")
    assert f"{first} {second}" == REVIEW and second.startswith("and I did")


@pytest.mark.chromium
def test_answer_truth_and_note_are_said(opened):
    words = words_of(REVIEW)
    page = opened(
        item(truth="negative", note="A note."),
        item(truth="positive"),
        item(),
        item(words, maps_of(words), name="other") | {"answer": "positive"},
    )
    assert page.each(".answers .name") == ["negative", "positive"]
    assert page.each(".answers .share") == ["90.0%", "10.0%"]
    assert page.text(".verdict") == "Right: it is negative."
    assert page.each(".answers .truth .name") == ["negative"]
    assert page.text(".texts").endswith("A note.")
    choose_text(page, 1)
    assert page.text(".verdict") == "Wrong: it is positive."
    choose_text(page, 2)
    assert page.count(".verdict") == 0
    choose_text(page, 3)
    assert "Words are shown for positive." in page.text(".side")
    assert "against positive" in page.text(".meaning")


@pytest.mark.chromium
def test_small_numbers_can_be_brought_out(opened):
    words = words_of(REVIEW)
    maps = maps_of(words)
    page = opened(item(words, maps))
    page.click("input[type=checkbox]")
    np.testing.assert_allclose(tints(page), np.sqrt(depths(maps.left_out)), atol=2e-3)


@pytest.mark.chromium
def test_the_address_reproduces_what_is_looked_at(opened):
    page = opened(item(), item(name="second"), address="#words?item=2&method=2&word=3")
    assert shown(page) == [2] and page.text(".texts h3") == "second"
    assert page.each("[aria-pressed=true]") == ["gradient"]
    click(page, 5)
    page.until("location.hash === '#words?item=2&method=2&word=6'")
    choose_method(page, 2)
    page.until("location.hash === '#words?item=2&method=3&word=6'")
    page.focus(".asked .token")
    page.press("Escape")
    page.until("location.hash === '#words?item=2&method=3'")
    page.evaluate("location.hash = '#words?item=1&word=5'")
    page.until("document.querySelector('.texts h3').textContent === 'A review'")
    assert shown(page) == [4]
    choose_text(page, 1)
    assert page.evaluate("document.activeElement.className") == "text"


@pytest.mark.chromium
@pytest.mark.parametrize("address", ["#words?item=99&word=99&method=99", "#words?word=x"])
def test_an_address_that_leads_nowhere_shows_the_first_text(opened, address):
    page = opened(item(), item(name="second"), address=address)
    assert page.text(".texts h3") == "A review" and shown(page) == []


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_texts_fit_the_screen(opened, width, dark):
    long = ["W" * 300, " b", *[" word"] * 400]
    texts = [
        item(breaks=[SECOND], truth="negative"),
        item(long, maps_of(long), name="h" * 300, classes=["n" * 200, "p" * 200]),
    ]
    for text in (1, 2):
        page = opened(*texts, width=width, dark=dark, address=f"#words?item={text}&word=2")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        words, side = page.box(".asked"), page.box(".strongest")
        if width == 1400:
            assert side[0] >= words[0] + words[2], "beside"
        else:
            assert side[1] >= words[1] + words[3], "below"
        hover(page, 5)
        assert page.box(".asked")[2:] == words[2:], "words do not move under the mouse"


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_stay_legible_on_every_shade(opened, dark):
    page = opened(item(), dark=dark)
    colours = page.evaluate("""(() => {
      const probe = document.createElement("i");
      document.querySelector(".view.words").append(probe);
      const number = (colour) => {
        probe.style.setProperty("color", colour);
        return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
      };
      const names = ["ink", "paper", "for", "against", "right", "wrong"];
      return names.map((name) => number(`var(--${name})`));
    })()""")
    ink, paper, *shades = (luminance(colour) for colour in colours)
    for shade in shades[:2]:
        assert contrast(ink, shade) >= 4.5, "letters on the deepest shade"
        assert contrast(shade, paper) >= 3, "the deepest shade stands out"
    for line in shades[2:]:
        assert contrast(line, paper) >= 4.5, "lines stand out"
    assert contrast(*shades[:2]) < 1.25, "as deep as one another"
    muted = "getComputedStyle(e).color"
    assert page.each(".asked", muted) == page.each("body", muted), "the text is in full ink"


def luminance(colour):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(colour) / 255
    ]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


def contrast(a, b):
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


@pytest.mark.chromium
def test_on_a_phone_what_is_said_stays_in_sight(opened):
    words = words_of(REVIEW) * 8
    page = opened(item(words, maps_of(words)), width=360, height=640)
    click(page, 4)
    _, top, _, height = page.box(".looks")
    assert 0 < top < top + height <= 641


@pytest.mark.chromium
def test_texts_from_right_to_left_walk_to_the_left(opened):
    words = ["העכבר", " הקטן", " גר", " כאן"]
    page = opened(item(words, maps_of(words)))
    page.focus(".asked .token")
    click(page, 0)
    page.press("ArrowLeft")
    assert shown(page) == [1]
    page.press("ArrowRight")
    assert shown(page) == [0]


@pytest.mark.chromium
def test_hostile_texts_stay_text(opened):
    words = [HOSTILE, " <b>", " &amp;", " "]
    hostile = item(
        words, maps_of(words), name=HOSTILE, classes=[HOSTILE, "b"], truth=HOSTILE, note=HOSTILE
    )
    for method in hostile["methods"]:
        method["name"] = method["words"] = HOSTILE
    page = opened(hostile, item())
    for place in range(4):
        hover(page, place)
    assert page.each(".asked .token") == [HOSTILE, "<b>", "&amp;", "␣"]
    assert page.evaluate("window.harmed") is None and page.count("script") == 3
    assert page.count("img, [onerror], .token *, .view b") == 0


@pytest.mark.chromium
def test_the_least_there_can_be_is_drawn(opened):
    words = ["a", " b"]
    zero = WordMaps(1, np.array([0.5, 0.5]), np.zeros(2), np.zeros(2), np.zeros(2), 0.0)
    page = opened({"words": words}, {}, item(words, zero), item([], maps_of([])))
    assert "No map was kept of this text." in page.text(".meaning")
    assert page.each("select.text option") == ["text 1", "text 2", "A review", "A review"]
    hover(page, 0)
    choose_text(page, 1)
    assert "The text has no words." in page.text(".texts")
    choose_text(page, 2)
    assert "Every word has 0." in page.text(".meaning") and not tints(page).any()
    hover(page, 1)
    assert page.text(".looks .rest") == "Without it, positive has 50.0% as well."
    choose_text(page, 3)
    assert "The text has no words." in page.text(".texts")


@pytest.mark.chromium
def test_nothing_at_all_says_so(opened):
    assert "There is no text to show." in opened().text(".empty")


@pytest.mark.chromium
def test_numbers_that_do_not_fit_the_words_are_said_to(browser, tmp_path):
    bad = {"words": ["a", "b"], "methods": [{"name": "gradient", "values": [1]}]}
    section = {"view": "words", "title": "Words", "data": {"items": [bad]}}
    write_document(tmp_path / "page.html", {"title": "Page", "sections": [section]})
    page = browser.open((tmp_path / "page.html").as_uri())
    assert "2 words have 1 numbers by gradient" in page.text(".empty")
    page.close()


@pytest.mark.chromium
def test_everything_that_acts_has_a_name_and_words_are_one_stop(opened):
    page = opened(item(), item())
    name = "Boolean(e.ariaLabel || e.textContent.trim() || e.labels?.length)"
    assert all(page.each("button, a, input, select, [tabindex], .view [role]", name))
    assert page.each("[role=radiogroup]", "e.querySelectorAll('[tabindex=\"0\"]').length") == [1]


# On paper


def sheet(words=None, maps=None, path=(), **options):
    words = words_of(REVIEW) if words is None else words
    maps = maps_of(words).by_method() if maps is None else maps
    return word_figure(words, maps, path, **options)


def said_on(figure):
    return [" ".join(text.get_text().split()) for text in figure.texts]


def texts_of(figure):
    """The axes that hold words, one a method; the others are scales."""
    return [axes for axes in figure.axes if axes.texts]


def test_a_sheet_has_the_text_once_a_method_on_its_shades():
    words = re.findall(r"\s*\S+", REVIEW)
    maps = maps_of(words).by_method()
    figure = sheet(words, maps, title="A review", caption="From a book.", answer="negative")
    assert_legible(figure)
    said = said_on(figure)
    assert said[0] == "A review" and "From a book." in said
    assert [name for name in METHODS if name in said] == [*maps]
    for (name, values), axes in zip(maps.items(), texts_of(figure), strict=True):
        assert [text.get_text() for text in axes.texts] == [word.strip() for word in words]
        assert METHODS[name].words in said
        deep = values / np.abs(values).max()
        seen = np.flatnonzero(np.abs(deep) > 1 / 256)
        got = [to_hex(patch.get_facecolor()) for patch in axes.patches]
        assert got == [to_hex(SCALE((1 + deep[at]) / 2)) for at in seen]
        lines = [(line.get_color(), line.get_linestyle()) for line in axes.lines]
        assert lines == [(LINE_FOR, "-") if values[at] > 0 else (LINE_AGAINST, "--") for at in seen]
        strongest = words[int(np.abs(values).argmax())].strip()
        assert any(line.startswith(f"Strongest: {strongest} ") for line in said)
    ends = [line for line in said if line.startswith("against negative")]
    assert len(ends) == 2


def test_the_shade_lies_under_its_word():
    figure = sheet(["deep", " words", ",", " here"], {"gradient": np.array([1.0, -0.5, 0.7, 0.2])})
    figure.draw_without_rendering()
    (axes,) = texts_of(figure)
    for text, patch in zip(axes.texts, axes.patches, strict=True):
        letters, ground = text.get_window_extent(), patch.get_window_extent()
        assert ground.x0 <= letters.x0 + 2 and letters.x1 - 2 <= ground.x1
        assert ground.y0 <= letters.y0 + 2 and letters.y1 - 2 <= ground.y1


@pytest.mark.parametrize(("count", "most"), [(1, 150), (150, 150), (151, 150), (40, 7)])
def test_long_texts_are_cut_and_the_page_says_so(count, most):
    words = ["word", *(f" word{n}" for n in range(1, count))]
    figure = sheet(words, most=most)
    assert_legible(figure)
    assert {len(axes.texts) for axes in texts_of(figure)} == {min(count, most)}
    cut = f"Shown are the first {most} of {count} words."
    assert (cut in " ".join(said_on(figure))) == (count > most)


def test_lines_break_before_spaces_and_paragraphs_begin_anew():
    words = words_of(REVIEW) * 2
    (axes, *_) = texts_of(sheet(words, breaks=[31]))
    places = [text.get_position() for text in axes.texts]
    for at, (word, (x, _)) in enumerate(zip(words, places, strict=True)):
        assert x > 0 or at in (0, 31) or word.startswith(" "), "a comma begins no line"
    assert places[31][0] == 0 and places[31][1] > places[30][1]


@pytest.mark.parametrize(
    "words",
    [
        ["$x_1$", " " + "long" * 60, " כוכב", " 猫🌟", " ", " </b>", "", "\n"],
        ["猫"] * 120,
        ["a", *[","] * 130],
    ],
    ids=["strange", "no spaces", "commas"],
)
def test_strange_words_stay_on_the_page(words):
    figure = sheet(words, title="T" * 200, caption="c " * 200, answer="n" * 90)
    with drawing(*words):
        figure.draw_without_rendering()
        for axes in texts_of(figure):
            right = axes.get_window_extent().x1
            assert all(text.get_window_extent().x1 <= right + 3 for text in axes.texts)


def test_a_map_of_ones_own_is_signed_if_it_has_signs():
    figure = sheet(["a", " b"], {"mine": np.array([0.2, 0.4]), "other": np.array([-3.0, 12.34])})
    said = said_on(figure)
    assert "Strongest: b 0.40, a 0.20" in said and "Strongest: b +12.3, a −3.00" in said
    assert sum(line.startswith("against") for line in said) == 1


def test_words_that_say_nothing_are_on_paper_alone():
    figure = sheet(["a", " b"], {"gradient": np.zeros(2)})
    (axes,) = texts_of(figure)
    assert not axes.patches and "every word has 0" in said_on(figure)
    assert "Strongest" not in " ".join(said_on(figure))


@pytest.mark.parametrize(
    ("value", "name", "words"),
    [
        (0.0, "gradient", "0"),
        (0.124, "left out", "+0.12"),
        (-0.00012, "gradient", "−0.0001"),
        (-12.34, "gradient", "−12.3"),
        (0.124, "attention", "12%"),
    ],
)
def test_numbers_are_short_and_have_their_signs(value, name, words):
    assert number(value, METHODS[name]) == words


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_sheet_is_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        sheet(path=path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second and len(first) > 1000
    if suffix == "png":
        assert Image.open(paths[0]).width == 1600
    if suffix == "svg":
        assert ElementTree.fromstring(first).tag.endswith("svg")


@pytest.mark.parametrize(
    "options",
    [
        {"words": [], "maps": {}},
        {"maps": {}},
        {"maps": {"a": np.ones(4)}},
        {"maps": {"a": np.full(3, np.nan)}},
        {"breaks": [9]},
        {"most": 0},
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options):
    with expect_error(ValueError):
        sheet(**{"words": list("abc"), **options})


def test_items_are_plain_values():
    assert json.loads(json.dumps(item())) == item()
