"""Each word of a text shows where it looked: in the browser and on paper."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from golden import expect_error
from regard.inspection.head_maps import head_maps
from regard.inspection.text_maps import reading_item
from regard.visualization.document import write_document
from regard.visualization.figure_image import DEPTHS
from regard.visualization.figure_text import text_figure, visible
from regard.visualization.figures import drawing
from test_figures import assert_legible

HOSTILE = "</script><img src=x onerror='window.harmed=1'><b>\u2028&\"'"
TALE = (
    "Once upon a time there was a small grey mouse who lived under the kitchen floor.\n"
    "Every night the mouse came out, and every night the cat was waiting for the mouse.\n"
)
GERMAN = ["die", " kleine", " graue", " Maus", " wohnt", " unter", " dem", " Boden", "."]
ENGLISH = ["the", " small", " grey", " mouse", " lives", " under", " the", " floor", "."]
ENGLISH += [" ⟨end⟩"]
MATRIX = "#reading?form=matrix"


def tokens_of(text):
    """Words with the space before them, marks and line ends alone: as a tokenizer cuts."""
    return re.findall(r" ?\w+|\n| ?[^\w\s]+| +", text)


def looks(tokens, layers=2, heads=3, seed=0):
    """Causal maps such as trained heads have: the word before, the first word, the same word."""
    rng = np.random.default_rng(seed)
    n = len(tokens)
    back = np.arange(n)[:, None] - np.arange(n)
    same = np.array([[a.strip() == b.strip() for b in tokens] for a in tokens]) & (back > 0)
    kinds = [6 * (back == 1), 5 * (np.arange(n) == 0), 6 * same, -back / 3, np.zeros((n, n))]
    scores = np.stack([kinds[i % 5] + 0 * back for i in range(layers * heads)]).astype(float)
    scores += rng.normal(size=scores.shape)
    return softmax(np.where(back >= 0, scores, -np.inf)).reshape(layers, heads, n, n)


def alignment(n, m, layers=2, heads=2, seed=0):
    """Maps that go along the diagonal, some closely and some hardly."""
    rng = np.random.default_rng(seed)
    away = np.abs(np.arange(n)[:, None] / max(1, n - 1) - np.arange(m) / max(1, m - 1))
    slopes = np.linspace(30, 3, layers * heads)[:, None, None]
    scores = rng.normal(size=(layers * heads, n, m)) - slopes * away
    return softmax(scores).reshape(layers, heads, n, m)


def softmax(scores):
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def item(tokens=None, maps=None, name="A tale", **changes):
    tokens = tokens_of(TALE) if tokens is None else tokens
    maps = looks(tokens) if maps is None else maps
    return {**reading_item(name, tokens, None, maps), **changes}


def pair(**changes):
    maps = alignment(len(ENGLISH), len(GERMAN))
    return {**reading_item("A pair", ENGLISH, GERMAN, maps, note="beam of 4"), **changes}


# In a browser


@pytest.fixture
def opened(opened):
    """Opens a page of these texts."""

    def open_texts(*items, **options):
        section = {"view": "reading", "title": "Reading", "data": {"items": items}}
        return opened({"title": "Page", "sections": [section]}, **options)

    return open_texts


def nth(place, text=".asked"):
    return f"{text} .token:nth-of-type({place + 1})"


def hover(page, place):
    """Point at a word: at the middle of its widest part, for it may begin at a line's end."""
    page.place(nth(place))
    x, y = page.evaluate(f"""((e) => {{
      const boxes = [...e.getClientRects()].sort((a, b) => b.width - a.width);
      return [boxes[0].left + boxes[0].width / 2, boxes[0].top + boxes[0].height / 2];
    }})(document.querySelector({json.dumps(nth(place))}))""")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    return x, y


def click(page, place):
    click_at(page, *hover(page, place))


def click_at(page, x, y):
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def tints(page, text=".asked"):
    shades = page.each(f"{text} .token", "Number(e.style.getPropertyValue('--tint'))")
    return np.array(shades)


def shown(page):
    """The places of words that are marked as shown."""
    marked = page.each(".asked .token", "e.classList.contains('shown')")
    return [place for place, mark in enumerate(marked) if mark]


def named(page):
    """The words said to be looked at most."""
    return page.each(".looks bdi")[1:]


def choose_text(page, number):
    page.evaluate(f"""(() => {{
      const select = document.querySelector("select.text");
      select.value = "{number}";
      select.dispatchEvent(new Event("change"));
    }})()""")


def cell(head, heads=3):
    """The small map of a head, counted through all layers from 1; 0 is the mean."""
    name = f"layer {(head - 1) // heads + 1}, head {(head - 1) % heads + 1}"
    return f".cell[aria-label^='{name if head else 'mean of all'}']"


def choose_head(page, head, heads=3):
    page.evaluate(f"document.querySelector({json.dumps(cell(head, heads))}).click()")


def chosen_head(page):
    return page.each(".cell[aria-checked=true]", "e.ariaLabel.split(':')[0]")


def pixels(page, selector=".whole canvas"):
    """How deep each pixel of a map is, from 0 to 1: how much it hides of the paper behind it."""
    values = page.evaluate(f"""(() => {{
      const canvas = document.querySelector({json.dumps(selector)});
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      const {{ data }} = copy.getImageData(0, 0, canvas.width, canvas.height);
      return [canvas.height, canvas.width, ...data.filter((_, i) => i % 4 === 3)];
    }})()""")
    return np.array(values[2:]).reshape(values[:2]) / 255


def small_map(page, head, shape):
    """What is seen where a cell shows its map, which is part of a canvas behind all of them."""
    whole = pixels(page, ".maps")
    (inner,) = page.each(
        cell(head),
        """((cell, own) => [cell.left, cell.top, own.left, own.top, own.width, own.height]
        .map(parseFloat))(e.getBoundingClientRect(), getComputedStyle(e, "::before"))""",
    )
    begin = np.add(inner[:2], inner[2:4])
    left, top, width, height = page.box(".maps")
    places = [(np.arange(count) + 0.5) / count for count in shape]
    y = (begin[1] - top + places[0] * inner[5]) / height * whole.shape[0]
    x = (begin[0] - left + places[1] * inner[4]) / width * whole.shape[1]
    return whole[np.ix_(y.astype(int), x.astype(int))]


def of_row(row):
    return row / row.max()


@pytest.mark.chromium
def test_a_word_shades_what_it_looked_at_while_the_mouse_is_on_it(opened):
    tokens = tokens_of(TALE)
    maps = looks(tokens)
    mean = maps.mean((0, 1))
    page = opened(item(tokens, maps))
    assert page.evaluate("document.querySelector('.asked').textContent") == TALE.replace(
        "\n", "↵\n"
    )
    first = shown(page)
    assert len(first) == 1 and tints(page).max() == 1, "something is shown from the start"
    for place in (25, 3, 20):
        hover(page, place)
        assert shown(page) == [place]
        np.testing.assert_allclose(tints(page), of_row(mean[place]), atol=0.004)
        order = np.argsort(-mean[place])[:3]
        assert named(page) == [tokens[i].strip() or "↵" for i in order]
        assert page.text(".looks .who").startswith(f"‘{tokens[place].strip()}’ looked at")
        said = [float(share.rstrip("%")) / 100 for share in page.each(".looks .share")]
        np.testing.assert_allclose(said, mean[place][order], atol=0.006)
        later = page.each(".asked .token", "e.classList.contains('later')")
        assert later == [i > place for i in range(len(tokens))]
    page.hover("h1")
    assert shown(page) == first, "and comes back when the mouse has gone"


@pytest.mark.chromium
def test_a_text_shades_the_other_text_that_it_read(opened):
    page = opened(pair())
    mean = alignment(len(ENGLISH), len(GERMAN)).mean((0, 1))
    assert page.text(".tokens:not(.asked)") == "die kleine graue Maus wohnt unter dem Boden."
    for place in (1, 3):
        hover(page, place)
        np.testing.assert_allclose(
            tints(page, ".tokens:not(.asked)"), of_row(mean[place]), atol=4e-3
        )
        assert not tints(page).any() and page.count(".later") == 0
        assert named(page)[0] == GERMAN[mean[place].argmax()].strip()
    assert page.each(".texts > .note") == ["beam of 4"]


@pytest.mark.chromium
def test_a_click_keeps_a_word_and_a_tap_too(opened):
    page = opened(item())
    click(page, 7)
    hover(page, 3)
    assert shown(page) == [3], "the mouse shows another meanwhile"
    page.hover("h1")
    assert shown(page) == [7]
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    x, y = hover(page, 9)
    page.hover("h1")
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    assert shown(page) == [7], "a finger that may yet scroll chooses nothing"
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.until("document.querySelectorAll('.asked .token')[9].classList.contains('shown')")


@pytest.mark.chromium
def test_arrow_keys_walk_along_the_words_and_between_the_lines(opened):
    tokens = tokens_of(TALE)
    page = opened(item(tokens), width=500)
    page.focus(nth(0))
    lines = page.each(".asked .token", "Math.round([...e.getClientRects()].at(-1).top)")
    click(page, 0)
    for key, place in (("ArrowLeft", 0), ("ArrowRight", 1), ("End", len(tokens) - 1), ("Home", 0)):
        page.press(key)
        assert shown(page) == [place]
        stops = page.each(".asked .token", "e.tabIndex")
        assert [i for i, stop in enumerate(stops) if stop == 0] == [place], "one for the Tab key"
    page.press("ArrowRight")
    page.press("ArrowDown")
    (below,) = shown(page)
    assert lines[below] == sorted(set(lines))[1], "one line down"
    page.press("ArrowUp")
    assert shown(page) == [1], "and up again"
    page.press("ArrowUp")
    assert shown(page) == [1], "the edge"
    page.press("Escape")
    assert shown(page) == [] and not tints(page).any()
    assert "Point at a word" in page.text(".looks")
    assert page.count(".arcs .of-word path") == 0


@pytest.mark.chromium
def test_the_map_is_every_row_of_the_head_and_its_frame_follows_the_word(opened):
    tokens = tokens_of(TALE)
    maps = looks(tokens)
    page = opened(item(tokens, maps), address=MATRIX)
    mean = maps.mean((0, 1))
    np.testing.assert_allclose(pixels(page), mean / mean.max(1, keepdims=True), atol=0.007)
    assert max(page.box(".whole canvas")[2:]) <= 480
    for place in (0, 20, len(tokens) - 1):
        click(page, place)
        page.hover("h1")
        _, top, _, height = page.box(".whole canvas")
        frame = page.box(".frame")
        assert frame[1] == pytest.approx(top + place * height / len(tokens), abs=1)
        assert frame[3] == pytest.approx(max(3, height / len(tokens)), abs=1)
    page.press("Escape")
    assert page.evaluate("document.querySelector('.frame').hidden")


@pytest.mark.chromium
def test_pointing_at_the_map_shows_its_row_and_says_the_share(opened):
    maps = alignment(len(ENGLISH), len(GERMAN))
    page = opened(pair(), address=MATRIX)
    kept = shown(page)
    row, column = 2, 5
    page.hover(".whole canvas", (column + 0.5) / len(GERMAN), (row + 0.5) / len(ENGLISH))
    assert shown(page) == [row]
    share = maps.mean((0, 1))[row, column]
    said = page.text(".hint")
    assert said.startswith("‘grey’ looked at ‘unter’: ")
    assert float(said.split()[-1].rstrip("%")) / 100 == pytest.approx(share, abs=0.005)
    page.hover("h1")
    assert shown(page) == kept
    click_at(page, *page.place(".whole canvas", 0.5, 0.55))
    page.hover("h1")
    assert shown(page) == [5]


@pytest.mark.chromium
def test_another_head_is_another_map_and_keeps_word_and_focus(opened):
    tokens = tokens_of(TALE)
    maps = looks(tokens)
    page = opened(item(tokens, maps), address=MATRIX)
    click(page, 20)
    page.hover("h1")
    heads = maps.reshape(6, *maps.shape[2:])
    for head in (3, 1, 6):
        choose_head(page, head)
        np.testing.assert_allclose(tints(page), of_row(heads[head - 1][20]), atol=0.004)
        right = heads[head - 1] / heads[head - 1].max(1, keepdims=True)
        np.testing.assert_allclose(pixels(page), right, atol=0.007)
    page.focus(cell(6))
    steps = {"ArrowLeft": (2, 2), "ArrowUp": (1, 2), "ArrowRight": (1, 3), "ArrowDown": (2, 3)}
    for key, (layer, head) in steps.items():
        page.press(key)
        assert chosen_head(page) == [f"layer {layer}, head {head}"]
        assert page.evaluate("document.activeElement.ariaChecked") == "true"
    page.press("ArrowRight")
    assert chosen_head(page) == ["layer 2, head 3"], "the edge"
    page.press("ArrowDown")
    assert chosen_head(page) == ["mean of all"], "below the last layer"
    page.press("ArrowUp")
    assert chosen_head(page) == ["layer 2, head 1"]
    assert shown(page) == [20]


@pytest.mark.chromium
@pytest.mark.parametrize("count", [12, 80])
def test_small_maps_keep_thin_lines(opened, count):
    tokens = (tokens_of(TALE) * 3)[:count]
    maps = looks(tokens)
    page = opened(item(tokens, maps))
    side = -(-count // 32)
    for head in (2, 5):
        each = maps.reshape(6, count, count)[head - 1]
        deep = each / each.max(1, keepdims=True)
        deep = np.pad(deep, (0, -count % side))
        right = deep.reshape(len(deep) // side, side, -1, side).max((1, 3))
        np.testing.assert_allclose(small_map(page, head, right.shape), right, atol=0.007)


@pytest.mark.chromium
def test_a_head_says_what_it_does_and_all_numbers_are_a_table(opened):
    tokens = tokens_of(TALE)
    page = opened(item(tokens, looks(tokens)))
    summaries = item(tokens, looks(tokens))["summaries"]
    share = round(100 * summaries[1]["previous"])
    choose_head(page, 1)
    does = f"layer 1, head 1: mostly the previous token ({share}%)"
    assert page.text(".does").casefold().startswith(does)
    assert page.each(cell(1), "e.ariaLabel") == [does]
    page.hover(cell(2))
    assert "mostly the first token" in page.text(".does"), "while the mouse is there"
    page.hover("h1")
    assert page.text(".does").casefold().startswith(does)
    page.click("summary")
    page.until("document.querySelectorAll('.all-heads tbody tr').length === 7")
    headings = page.each(".all-heads th")
    page.click(f".all-heads th:nth-child({headings.index('induction, %') + 1}) button")
    found = page.each(".all-heads td:last-child", "Number(e.textContent)")
    right = sorted((100 * each["induction"] for each in summaries), reverse=True)
    np.testing.assert_allclose(found, right, atol=0.051)
    page.click(".all-heads tbody tr:nth-child(2)")
    assert chosen_head(page) == page.each(".all-heads tbody tr:nth-child(2) td:first-child")


@pytest.mark.chromium
def test_arcs_go_from_the_word_to_what_it_looked_at(opened):
    tokens = tokens_of(TALE)[:12]
    maps = looks(tokens)
    page = opened(item(tokens, maps), address="#reading?head=2&word=9")
    row = maps[0, 0, 8]
    assert page.count(".arcs .of-word path") == (row >= 0.0101).sum()
    wide = page.each(".of-word path", "Number(e.getAttribute('stroke-width'))")
    assert wide == sorted(wide, reverse=True)
    np.testing.assert_allclose(wide[0], 1 + 5 * row.max(), atol=0.03)
    assert page.each(".arcs text") == [token.strip() for token in tokens]
    assert page.each(".arcs .chosen") == [tokens[8].strip()]
    assert tokens[row.argmax()].strip() in page.each(".arcs .looked-at")
    # The strongest arc ends above the word that was looked at most.
    end = page.each(".of-word path", "Number(e.getAttribute('d').split(' ').at(-2))")[0]
    place = page.each(".arcs text", "Number(e.getAttribute('x'))")[row.argmax()]
    assert end == pytest.approx(place, abs=0.02)
    assert "‘" + tokens[8].strip() + "’" in page.each(".arcs svg", "e.ariaLabel")[0]
    page.hover(".arcs svg", 3.5 / 12, 0.9)
    assert shown(page) == [3]
    click_at(page, *page.place(".arcs svg", 5.5 / 12, 0.9))
    page.hover("h1")
    assert shown(page) == [5]


@pytest.mark.chromium
def test_arcs_of_two_texts_go_from_line_to_line(opened):
    page = opened(pair())
    assert page.each(".arcs text") == [token.strip() for token in GERMAN + ENGLISH]
    tops = page.each(".arcs .rule", "Number(e.getAttribute('y1'))")
    (word,) = shown(page)
    row = alignment(len(ENGLISH), len(GERMAN)).mean((0, 1))[word]
    assert page.count(".arcs .of-word path") == (row >= 0.0101).sum()
    ends = page.each(".of-word path", "Number(e.getAttribute('d').split(' ').at(-1))")
    assert set(ends) == {tops[0]} and tops[0] < tops[1]
    assert page.count(".arcs .behind path") == len(ENGLISH) - 1


@pytest.mark.chromium
@pytest.mark.parametrize("form", ["arcs", "matrix"])
def test_figures_are_saved_as_they_are_seen(opened, form):
    tokens = tokens_of(TALE)[:12]
    name = f"Tale {form}"
    page = opened(item(tokens, looks(tokens), name), address=f"#reading?form={form}&head=3")
    for button in (1, 2):
        page.click(f".texts figure .download:nth-of-type({button})")
    stem = f"tale-{form}-layer-1-head-2-{form}"
    picture = Image.open(page.saved(f"{stem}.png"))
    drawn = ElementTree.parse(page.saved(f"{stem}.svg")).getroot()
    assert picture.width == pytest.approx(2 * float(drawn.get("width")), abs=1)
    assert np.asarray(picture.convert("L")).std() > 5, "something is drawn"
    words = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert words[0] == name and words[1].startswith("layer 1, head 2")
    assert {token.strip() for token in tokens} <= set(words)
    kind = {"arcs": "path", "matrix": "image"}[form]
    assert next(drawn.iter(f"{{http://www.w3.org/2000/svg}}{kind}"), None) is not None


@pytest.mark.chromium
def test_small_shares_can_be_brought_out(opened):
    tokens = tokens_of(TALE)
    maps = looks(tokens)
    page = opened(item(tokens, maps), address=MATRIX)
    click(page, 20)
    page.hover("h1")
    page.click("input[type=checkbox]")
    np.testing.assert_allclose(tints(page), np.sqrt(of_row(maps.mean((0, 1))[20])), atol=0.03)
    mean = maps.mean((0, 1))
    right = np.sqrt(mean / mean.max(1, keepdims=True))
    np.testing.assert_allclose(pixels(page), right, atol=0.05)


@pytest.mark.chromium
def test_every_head_is_found_in_the_bytes(opened):
    maps = alignment(5, 7, 1, 4)[0]  # 55 bytes a head: no whole number of base64's groups
    packed = head_maps(maps, causal=False)
    page = opened({"asked": list("abcde"), "read": list("tuvwxyz"), "maps": packed})
    assert page.each(".cell", "e.ariaLabel") == ["map 1", "map 2", "map 3", "map 4"]
    for head in range(4):
        page.click(f".cell:nth-of-type({head + 1})")
        for word in (0, 4):
            hover(page, word)
            got = tints(page, ".tokens:not(.asked)")
            np.testing.assert_allclose(got, of_row(maps[head, word]), atol=0.01)


@pytest.mark.chromium
def test_what_cannot_be_seen_has_a_quiet_sign(opened):
    tokens = ["a", " ", "b", "\n", "\n\n", "\t", "", " c", ".\r\n", "\x07", "  "]
    page = opened(item(tokens, looks(tokens, 1, 1)))
    texts = page.each(".asked .token")
    assert texts == ["a", " ", "b", "↵\n", "↵\n↵\n", "⇥", "∅", "c", ".↵\n", "␇", "  "]
    assert "∅ c." in page.text(".asked"), "the space before a word is outside it"
    labels = page.each(".asked .token", "e.ariaLabel")
    assert labels == [
        *(None, "space", None, "new line", "new line", "tab"),
        *("nothing", None, None, None, "space"),
    ]
    assert page.each(".asked .token", "getComputedStyle(e).whiteSpace")[0] == "pre-wrap"
    tops = page.each(".asked .token", "Math.round(e.getClientRects()[0].top)")
    assert tops[0] == tops[3] < tops[4] < tops[7], "line ends end lines"
    assert all(width > 2 for width in page.each(".asked .token", "e.getBoundingClientRect().width"))


@pytest.mark.chromium
def test_hostile_texts_stay_text(opened):
    tokens = [HOSTILE, "<b>", " ", "&amp;"]
    maps = looks(tokens, 1, 2)
    page = opened(
        item(tokens, maps, name=HOSTILE, note=HOSTILE, heads=[HOSTILE] * 3),
        {**reading_item(HOSTILE, tokens, tokens, maps), "titles": [HOSTILE, "<i>"]},
    )
    for number in (0, 1):
        choose_text(page, number)
        for place in range(4):
            hover(page, place)
        for form in (3, 2):
            page.click(f".forms button:nth-child({form})")
            page.hover(".texts figure :is(canvas, svg)")
        assert page.each(".asked .token") == tokens
        assert page.evaluate("window.harmed") is None and page.count("script") == 3
        assert page.count("img, [onerror], .token *, .view b, .view main i") == 0


@pytest.mark.chromium
def test_texts_from_right_to_left_walk_to_the_left(opened):
    tokens = ["העכבר", " הקטן", " גר", " כאן"]
    page = opened(item(tokens, looks(tokens, 1, 1)))
    click(page, 0)
    page.press("ArrowLeft")
    assert shown(page) == [1]
    page.press("ArrowRight")
    assert shown(page) == [0]


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_a_text_and_its_map_fit_the_screen(opened, width, dark):
    long = ["W" * 300, " b", *[" "] * 300, *["\n"] * 3]
    texts = [item(tokens_of(TALE * 3)), pair(), item(long, looks(long, 1, 1), name="h" * 300)]
    for number, form in ((1, "arcs"), (2, "matrix"), (3, "arcs"), (3, "matrix")):
        address = f"#reading?item={number}&form={form}"
        page = opened(*texts, width=width, dark=dark, address=address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        words, figure, heads = map(page.box, (".asked", ".texts figure", ".heads"))
        assert figure[1] >= words[1] + words[3] and words[2] <= figure[2] + 6
        if width == 1400:
            assert heads[0] >= words[0] + words[2], "beside"
        else:
            assert heads[1] >= figure[1] + figure[3], "below"
    assert max(page.box(".whole canvas")[2:]) <= 480
    words = page.box(".asked")
    hover(page, 1)
    assert page.box(".asked")[2:] == words[2:], "words do not move under the mouse"


@pytest.mark.chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_stay_legible_on_every_shade(opened, dark):
    page = opened(item(), dark=dark)
    colours = page.evaluate("""(() => {
      const style = getComputedStyle(document.querySelector(".reading"));
      const probe = document.createElement("i");
      document.querySelector(".reading").append(probe);
      const number = (colour) => {
        probe.style.setProperty("color", colour);
        return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
      };
      return ["var(--ink)", "var(--shade)", "var(--paper)", "var(--muted)"].map(number);
    })()""")
    ink, shade, paper, muted = (luminance(colour) for colour in colours)
    assert contrast(ink, shade) >= 4.5 and contrast(muted, paper) >= 4.5
    assert contrast(shade, paper) >= 3, "the deepest shade stands out"


def luminance(colour):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(colour) / 255
    ]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


def contrast(a, b):
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


@pytest.mark.chromium
def test_maps_turn_dark_and_light_with_the_page(opened):
    page = opened(item(), address=MATRIX)
    behind = "[['.whole canvas'], ['.cell', '::before']]"
    found = "[...document.querySelectorAll(name)].map((e) => getComputedStyle(e, part)"
    grounds = f"new Set({behind}.flatMap(([name, part]) => {found}.backgroundColor)))"
    assert pixels(page)[0, -1] == 0, "what no word may look at is paper"
    for paper in ("rgb(255, 255, 255)", "rgb(20, 24, 29)", "rgb(255, 255, 255)"):
        page.until(f"((g) => g.size === 1 && g.has({json.dumps(paper)}))({grounds})")
        page.click(".theme")


@pytest.mark.chromium
def test_on_a_phone_what_is_said_stays_in_sight(opened):
    page = opened(item(tokens_of(TALE * 8)), width=360, height=640)
    click(page, 4)
    _, top, _, height = page.box(".looks")
    assert 0 < top < top + height <= 641


@pytest.mark.chromium
def test_512_words_and_144_heads_are_drawn_and_answer(opened):
    tokens = tokens_of(TALE * 16)[:512]
    maps = looks(tokens, 1, 12).astype(np.float32)
    page = opened(item(tokens, np.broadcast_to(maps, (12, 12, 512, 512))), address=MATRIX)
    assert page.count(".cell") == 145 and page.box(".whole canvas")[2:] == [480, 480]
    choose_head(page, 12 * 8 + 5, 12)
    head = maps[0, 4] / maps[0, 4].max(1, keepdims=True)
    right = head.reshape(256, 2, 256, 2).max((1, 3))
    np.testing.assert_allclose(pixels(page), right, atol=0.007)
    hover(page, 500)
    np.testing.assert_allclose(tints(page), of_row(maps[0, 4, 500]), atol=0.004)
    page.click(".forms button:nth-child(2)")
    hover(page, 77)
    assert page.each(".arcs .chosen") == [tokens[77].strip()], "named among numbers of places"
    assert page.count(".arcs text") < 20 and "500" in page.each(".arcs .tick")


@pytest.mark.chromium
def test_the_address_reproduces_what_is_looked_at(opened):
    page = opened(item(), pair(), address="#reading?item=2&word=3&head=2")
    assert shown(page) == [2] and page.text(".texts h3") == "A pair"
    assert chosen_head(page) == ["layer 1, head 1"] and page.count(".arcs") == 1
    click(page, 5)
    page.until("location.hash === '#reading?item=2&word=6&head=2'")
    page.press("Escape")
    page.until("location.hash === '#reading?item=2&head=2'")
    page.click(".forms button:last-child")
    page.until("location.hash === '#reading?item=2&head=2&form=matrix'")
    assert page.evaluate("document.activeElement.textContent") == "Matrix"
    page.hover("h1")
    page.evaluate("location.hash = '#reading?item=1&word=5&head=3&form=text'")
    page.until("document.querySelector('.texts h3').textContent === 'A tale'")
    assert shown(page) == [4] and page.count(".texts figure") == 0
    choose_text(page, 1)
    assert page.text(".texts h3") == "A pair"
    assert page.evaluate("document.activeElement.className") == "text"


@pytest.mark.chromium
@pytest.mark.parametrize(
    "address", ["#reading?item=99&word=99&head=99", "#reading?word=x&form=toString"]
)
def test_an_address_that_leads_nowhere_shows_the_first_text_as_it_is(opened, address):
    page = opened(item(), pair(), address=address)
    assert page.text(".texts h3") == "A tale" and len(shown(page)) == 1


@pytest.mark.chromium
def test_the_least_there_can_be_is_drawn(opened):
    zero = head_maps([np.zeros((1, 1))], causal=False)
    page = opened(
        {"asked": ["a", " b"]}, {}, {"asked": ["a"], "maps": zero}, pair(read=[], maps=None)
    )
    assert "No map was kept of this text." in page.text(".looks") and page.count("canvas") == 0
    assert page.each("select.text option") == ["text 1", "text 2", "text 3", "A pair"]
    choose_text(page, 1)
    assert "The text has no words." in page.text(".texts")
    choose_text(page, 2)
    assert page.text(".looks") == "‘a’ looked at nothing"
    choose_text(page, 3)
    assert page.count(".asked .token") == len(ENGLISH)


@pytest.mark.chromium
def test_nothing_at_all_says_so(opened):
    assert "There is no text to show." in opened().text(".empty")


@pytest.mark.chromium
def test_maps_that_do_not_fit_the_words_are_said_to(browser, tmp_path):
    maps = head_maps(np.ones((2, 3, 2)), causal=False)
    data = {"items": [{"asked": ["a", "b"], "read": ["x", "y", "z"], "maps": maps}]}
    section = {"view": "reading", "title": "Reading", "data": data}
    write_document(tmp_path / "page.html", {"title": "Page", "sections": [section]})
    page = browser.open((tmp_path / "page.html").as_uri())
    assert "2 words that look at 3 have maps of shape 2 × 3 × 2" in page.text(".empty")
    page.close()


@pytest.mark.chromium
def test_everything_that_acts_has_a_name_and_words_are_one_stop(opened):
    page = opened(item(), pair())
    name = "Boolean(e.ariaLabel || e.textContent.trim() || e.labels?.length)"
    assert all(page.each("button, a, input, select, [tabindex], [role]", name))
    stops = page.each("[role=radiogroup]", "e.querySelectorAll('[tabindex=\"0\"]').length")
    assert stops == [1, 1], "the words and the heads"
    assert page.each("[role=radio][aria-checked=true]", "e.tabIndex") == [0, 0]


# On paper


def sheet(asked=None, read=None, maps=None, path=(), **options):
    asked = tokens_of(TALE)[:12] if asked is None else asked
    if maps is None:
        maps = looks(asked) if read is None else alignment(len(asked), len(read))
    return text_figure(asked, read, maps, path, **options)


def words_of(figure):
    return [" ".join(text.get_text().split()) for text in figure.texts]


def values_of(figure):
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes]


def test_the_mean_is_large_and_every_head_has_a_small_map():
    tokens = tokens_of(TALE)[:12]
    maps = looks(tokens, 3, 4)
    figure = sheet(tokens, None, maps, title="A tale", caption="From a book.")
    large, *small = values_of(figure)
    mean = maps.mean((0, 1))
    np.testing.assert_allclose(large, mean / mean.max(1, keepdims=True))
    right = maps.reshape(12, 12, 12)
    np.testing.assert_allclose(small, right / right.max(2, keepdims=True))
    words = words_of(figure)
    assert words[0] == "A tale" and "From a book." in words
    assert "Large is the mean of 12 heads" in words[1]
    assert [w for w in words if w.startswith("layer")] == ["layer 1", "layer 2", "layer 3"]
    assert [w for w in words if w.startswith("head")] == [f"head {n}" for n in (1, 2, 3, 4)]
    shares = [f"{row.max():.0%}" for row in mean]
    assert [w for w in words if w.endswith("%")] == shares
    assert {axes.images[0].get_cmap().name for axes in figure.axes} == {DEPTHS.name}
    assert_legible(figure)


def test_rows_and_columns_are_named_by_their_words():
    figure = sheet(["a", " b", "\n"], ["x", " "], alignment(3, 2))
    named = {text.get_text(): text for text in figure.texts}
    axes = figure.axes[0].get_window_extent()
    for i, word in enumerate(("a", "b", "↵")):
        box = named[word].get_window_extent()
        assert box.x1 < axes.x0
        assert (box.y0 + box.y1) / 2 == pytest.approx(axes.y1 - (i + 0.5) * axes.height / 3, abs=6)
    for j, word in enumerate(("x", "␣")):
        box = named[word].get_window_extent()
        assert box.y0 > axes.y1
        assert (box.x0 + box.x1) / 2 == pytest.approx(axes.x0 + (j + 0.5) * axes.width / 2, abs=6)


@pytest.mark.parametrize(
    ("count", "most"), [(1, 40), (40, 40), (41, 40), (90, 40), (70, 60), (9, 3)]
)
def test_long_texts_are_cut_and_the_page_says_so(count, most):
    asked = [f"word{n}" for n in range(count)]
    figure = sheet(asked, None, looks(asked, 1, 2), most=most)
    assert_legible(figure)
    kept = min(count, most)
    assert {values.shape for values in values_of(figure)} == {(kept, kept)}
    words = words_of(figure)
    assert words.count(f"word{kept - 1}") == 2 and f"word{kept}" not in words
    assert (f"Shown are the first {most} of {count} words." in words[1]) == (count > most)


def test_two_texts_are_cut_each():
    asked, read = [f"a{n}" for n in range(50)], [f"b{n}" for n in range(45)]
    figure = sheet(asked, read)
    said = " ".join(words_of(figure))
    assert "the first 40 of 50 words and the first 40 of 45 words looked at." in said
    short = " ".join(words_of(sheet(asked[:5], read)))
    assert "Shown are the first 40 of 45 words looked at." in short


def test_of_many_layers_and_heads_eight_are_shown():
    figure = sheet(list("abcd"), None, looks(list("abcd"), 12, 9))
    assert len(figure.axes) == 1 + 64
    words = words_of(figure)
    assert "Shown are 8 of 12 layers and 8 of 9 heads." in " ".join(words)
    assert {"layer 1", "layer 12", "head 1", "head 9"} <= set(words)
    assert_legible(figure)


def test_the_large_map_can_stand_alone(tmp_path):
    asked, path = list("abcd"), tmp_path / "a.png"
    maps = looks(asked, 12, 9)
    with_heads = sheet(asked, None, maps, title="A tale", caption="From a book.")
    figure = text_figure(
        asked, None, maps, path, title="A tale", caption="From a book.", heads=False
    )
    assert_legible(figure)
    np.testing.assert_array_equal(values_of(figure), values_of(with_heads)[:1])
    words = " ".join(words_of(figure))
    assert "Drawn is the mean of 108 heads." in words and "small" not in words
    assert "head 1" not in words and "of 12 layers" not in words and "From a book." in words
    # The page ends below the map, with its foot.
    (axes,) = figure.axes
    assert axes.get_window_extent().y0 < 0.8 * figure.dpi
    assert figure.get_figheight() < with_heads.get_figheight() - 2 and path.exists()


def test_one_head_alone_has_no_small_map():
    figure = sheet(list("abc"), None, looks(list("abc"), 1, 1))
    assert len(figure.axes) == 1 and "mean" not in " ".join(words_of(figure))


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (3, 30), (40, 8), (2, 2)], ids=str)
@pytest.mark.parametrize("heads", [1, 8])
def test_words_stay_apart_whatever_the_lengths(shape, heads):
    asked, read = [f"asked{n}" for n in range(shape[0])], [f"read{n}" for n in range(shape[1])]
    figure = sheet(asked, read, alignment(*shape, 2, heads), title="T" * 90, caption="c " * 200)
    assert_legible(figure)
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


def test_strange_words_stay_apart():
    words = [
        "$x_1$",
        "a-very-long-word-that-has-no-room-at-all",
        "כוכב",
        "猫🌟",
        " ",
        "</b>",
        "",
        "\r\n",
    ]
    figure = sheet(words)
    with drawing(*words):
        assert_legible(figure)
    assert {"$x_1$", "␣", "∅", "↵", "</b>"} <= set(words_of(figure))
    assert visible(" the") == "the" and visible("\x07") == "␇" and visible("  ") == "␣␣"
    assert visible(".\r\n") == ".↵" and visible("\t") == "⇥"


def test_a_row_that_looks_nowhere_is_white():
    maps = looks(list("abc"), 1, 2)
    maps[:, :, 1] = 0
    figure = sheet(list("abc"), None, maps)
    assert all((values[1] == 0).all() and values[2].max() == 1 for values in values_of(figure))
    assert "0%" in words_of(figure)


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


def test_several_paths_are_all_written(tmp_path):
    paths = [tmp_path / "look.png", tmp_path / "look.svg"]
    sheet(path=paths)
    assert all(path.stat().st_size > 1000 for path in paths)


@pytest.mark.parametrize(
    "options",
    [
        {"asked": []},
        {"read": []},
        {"maps": np.ones((2, 2, 3, 4))},
        {"maps": np.ones((0, 2, 3, 3))},
        {"maps": np.full((2, 2, 3, 3), np.nan)},
        {"maps": -np.ones((2, 2, 3, 3))},
        {"most": 0},
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options):
    asked, maps = list("abc"), np.full((2, 2, 3, 3), 1 / 3)
    with expect_error(ValueError):
        sheet(**{"asked": asked, "maps": maps, **options})
